"""The things we talk about, as plain data: requests, plans, runs, attempts, and the one document that all show."""

from corral.model.inbox import YES_NO, Entry, InboxEntry, Question
from corral.model.plan import (
    ComplexityTable,
    CondensePolicy,
    RetryPolicy,
    RoutingRule,
    RunPlan,
    Setup,
    SlotHeld,
    SlotLimits,
    SlotWant,
    ToolboxRules,
    TrackRecord,
)
from corral.model.proof import CheckResult, Receipt, SandboxReport, Sighting, Tally, Violation
from corral.model.records import AttemptRecord, Claim, Order, Phase, RunRecord
from corral.model.request import Request
from corral.model.run import ENCODER, Attempt, MergeState, NodeClash, NodeState, Run, document
from corral.model.scope import NamedPath, Net, PathRules, Scope, ScopeSource, ScopeTable
from corral.model.words import OPEN, Cost, CostSource, ErrorClass, Failure, Level, Status, Tokens, moment

__all__ = [
    "ENCODER",
    "OPEN",
    "YES_NO",
    "Attempt",
    "AttemptRecord",
    "CheckResult",
    "Claim",
    "ComplexityTable",
    "CondensePolicy",
    "Cost",
    "CostSource",
    "Entry",
    "ErrorClass",
    "Failure",
    "InboxEntry",
    "Level",
    "MergeState",
    "NamedPath",
    "Net",
    "NodeClash",
    "NodeState",
    "Order",
    "PathRules",
    "Phase",
    "Question",
    "Receipt",
    "Request",
    "RetryPolicy",
    "RoutingRule",
    "Run",
    "RunPlan",
    "RunRecord",
    "SandboxReport",
    "Scope",
    "ScopeSource",
    "ScopeTable",
    "Setup",
    "Sighting",
    "SlotHeld",
    "SlotLimits",
    "SlotWant",
    "Status",
    "Tally",
    "Tokens",
    "ToolboxRules",
    "TrackRecord",
    "Violation",
    "document",
    "moment",
]  # fmt: skip
