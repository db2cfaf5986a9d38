"""Closed set of messages."""

from typing import TypeAlias, get_args

from securefl.protocol.messages import control, masking, rounds, validation, verification
from securefl.protocol.messages.crypten import PeerBox

MaskingMessage: TypeAlias = (
    masking.KeyAdvert
    | masking.KeyList
    | masking.ShareBoxes
    | masking.BoxList
    | masking.Complaint
    | masking.Retry
    | masking.MaskedInput
    | masking.Receipt
    | masking.VectorReceipt
)
RoundMessage: TypeAlias = (
    rounds.Invite
    | rounds.ValuedInvite
    | rounds.ModelAnnounce
    | rounds.BestModel
    | rounds.Hello
    | rounds.StatingHello
    | rounds.Announce
    | rounds.Reveal
    | rounds.Reveals
    | rounds.Freeze
    | rounds.BindingFreeze
    | rounds.Endorse
    | rounds.Certificate
    | rounds.Release
    | rounds.SlotCounts
)
ValidationMessage: TypeAlias = (
    validation.DealRequest
    | validation.Dealt
    | validation.DealtTo
    | validation.Held
    | validation.HeldList
    | validation.SketchNonce
    | validation.SketchNonces
    | validation.Verdict
    | validation.Verdicts
)
VerificationMessage: TypeAlias = (
    verification.ChainedAnnounce
    | verification.ChainedReveal
    | verification.OpeningProof
    | verification.StepProof
    | verification.Attest
)
AnyMessage: TypeAlias = (
    control.Here
    | control.RollCall
    | control.Join
    | control.JoinRun
    | control.Software
    | control.Pause
    | control.Goodbye
    | RoundMessage
    | MaskingMessage
    | PeerBox
    | ValidationMessage
    | VerificationMessage
)

SumToMember: TypeAlias = (
    masking.KeyList
    | masking.BoxList
    | PeerBox
    | validation.DealtTo
    | validation.HeldList
    | validation.SketchNonces
    | validation.Verdicts
)
SumToServer: TypeAlias = (
    masking.KeyAdvert
    | masking.ShareBoxes
    | masking.MaskedInput
    | masking.Receipt
    | masking.VectorReceipt
    | masking.Complaint
    | PeerBox
    | validation.Dealt
    | validation.Held
    | validation.SketchNonce
    | validation.Verdict
)
NotForParties: TypeAlias = (
    SumToServer
    | control.Join
    | control.JoinRun
    | control.Software
    | rounds.Hello
    | rounds.StatingHello
    | rounds.Reveal
    | verification.ChainedReveal
    | rounds.Endorse
    | rounds.Release
    | validation.DealRequest
    | verification.Attest
)
"""Messages for server or dealer, which parties reject unless in :data:`SumToMember`."""
PassedOn: TypeAlias = PeerBox | validation.DealtTo
"""Messages that the server relays to a member at once."""

KINDS = frozenset(kind.__name__ for kind in get_args(AnyMessage))
