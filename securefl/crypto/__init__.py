"""The hazardous layer: identities, key agreement, AEAD boxes, mask streams, Shamir shares."""
