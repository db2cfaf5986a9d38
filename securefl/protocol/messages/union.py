"""The closed set of messages: whatever is not in this union is not a message."""

from __future__ import annotations

from typing import TypeAlias, get_args

from securefl.protocol.messages.control import Goodbye, Here, Join, JoinRun, Pause, RollCall, Software
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import (
    BoxList,
    Complaint,
    KeyAdvert,
    KeyList,
    MaskedInput,
    Receipt,
    Retry,
    ShareBoxes,
    VectorReceipt,
)
from securefl.protocol.messages.rounds import (
    Announce,
    BestModel,
    BindingFreeze,
    Certificate,
    Endorse,
    Freeze,
    Hello,
    Invite,
    ModelAnnounce,
    Release,
    Reveal,
    Reveals,
    SlotCounts,
    StatingHello,
)
from securefl.protocol.messages.validation import (
    DealRequest,
    Dealt,
    DealtTo,
    Held,
    HeldList,
    SketchNonce,
    SketchNonces,
    Verdict,
    Verdicts,
)
from securefl.protocol.messages.verification import (
    Attest,
    ChainedAnnounce,
    ChainedReveal,
    OpeningProof,
    StepProof,
)

MaskingMessage: TypeAlias = (
    KeyAdvert | KeyList | ShareBoxes | BoxList | Complaint | Retry | MaskedInput | Receipt | VectorReceipt
)
RoundMessage: TypeAlias = (
    Invite
    | ModelAnnounce
    | BestModel
    | Hello
    | StatingHello
    | Announce
    | Reveal
    | Reveals
    | Freeze
    | BindingFreeze
    | Endorse
    | Certificate
    | Release
    | SlotCounts
)
ValidationMessage: TypeAlias = (
    DealRequest | Dealt | DealtTo | Held | HeldList | SketchNonce | SketchNonces | Verdict | Verdicts
)
VerificationMessage: TypeAlias = ChainedAnnounce | ChainedReveal | OpeningProof | StepProof | Attest
AnyMessage: TypeAlias = (
    Here
    | RollCall
    | Join
    | JoinRun
    | Software
    | Pause
    | Goodbye
    | RoundMessage
    | MaskingMessage
    | PeerBox
    | ValidationMessage
    | VerificationMessage
)

SumToMember: TypeAlias = KeyList | BoxList | PeerBox | DealtTo | HeldList | SketchNonces | Verdicts
"""What a server says to a member of a secure sum, of whatever kind."""
SumToServer: TypeAlias = (
    KeyAdvert
    | ShareBoxes
    | MaskedInput
    | Receipt
    | VectorReceipt
    | Complaint
    | PeerBox
    | Dealt
    | Held
    | SketchNonce
    | Verdict
)
"""What members of a sum, and its dealer, say to the server."""
NotForParties: TypeAlias = (
    SumToServer
    | Join
    | JoinRun
    | Software
    | Hello
    | StatingHello
    | Reveal
    | ChainedReveal
    | Endorse
    | Release
    | DealRequest
    | Attest
)
"""What nobody says to a party, but for what it is passed on."""
PassedOn: TypeAlias = PeerBox | DealtTo
"""Of what comes to a member: what somebody else has said, when it was said."""

KINDS = frozenset(kind.__name__ for kind in get_args(AnyMessage))
"""The names of all messages, as they stand in tags and envelopes."""
