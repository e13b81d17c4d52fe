import type { INodeProperties } from 'n8n-workflow';

/** Shows a field for some operations of a resource alone. */
function only(resource: string, ...operation: string[]): INodeProperties['displayOptions'] {
	return { show: { resource: [resource], operation } };
}

const RESOURCE: INodeProperties = {
	displayName: 'Resource',
	name: 'resource',
	type: 'options',
	noDataExpression: true,
	options: [
		{ name: 'Flow', value: 'flow' },
		{ name: 'Inbox', value: 'inbox' },
		{ name: 'Run', value: 'run' },
	],
	default: 'run',
};

const RUN_OPERATION: INodeProperties = {
	displayName: 'Operation',
	name: 'operation',
	type: 'options',
	noDataExpression: true,
	displayOptions: { show: { resource: ['run'] } },
	options: [
		{ name: 'Diff', value: 'diff', action: 'Show the diff of a run', description: 'Show the change of a run as a patch' },
		{ name: 'Get', value: 'get', action: 'Get a run', description: 'Get the run document: status, attempts, cost, evidence' },
		{ name: 'Merge', value: 'merge', action: 'Merge a run', description: 'Merge the work of a run; a conflict moves nothing' },
		{ name: 'Preview Merge', value: 'preview', action: 'Preview a merge', description: 'Tell what a merge would change; this changes nothing' },
		{ name: 'Start', value: 'start', action: 'Start a run', description: 'Queue a task for one agent, or for several that race' },
		{ name: 'Stop', value: 'stop', action: 'Stop a run', description: 'Stop a run and keep its work' },
		{ name: 'Undo Merge', value: 'undo', action: 'Undo a merge', description: 'Put the branch back to where it was before the merge' },
		{ name: 'Wait', value: 'wait', action: 'Wait for a run', description: 'Wait until a run is over or waits for an answer' },
	],
	default: 'start',
};

const INBOX_OPERATION: INodeProperties = {
	displayName: 'Operation',
	name: 'operation',
	type: 'options',
	noDataExpression: true,
	displayOptions: { show: { resource: ['inbox'] } },
	options: [
		{ name: 'Answer', value: 'answer', action: 'Answer a question', description: 'Answer an entry of the inbox; the first answer counts' },
		{ name: 'List', value: 'list', action: 'List the inbox', description: 'List what waits for a user' },
	],
	default: 'list',
};

const FLOW_OPERATION: INodeProperties = {
	displayName: 'Operation',
	name: 'operation',
	type: 'options',
	noDataExpression: true,
	displayOptions: { show: { resource: ['flow'] } },
	options: [{ name: 'Run', value: 'run', action: 'Run a flow', description: 'Queue a graph of tasks' }],
	default: 'run',
};

const REPOSITORY: INodeProperties = {
	displayName: 'Repository',
	name: 'repo',
	type: 'string',
	default: '',
	placeholder: 'e.g. /src/shop',
	description: 'Folder of the repository on the machine of Corral. Empty: the one that the server was started in.',
};

const START: INodeProperties[] = [
	{
		displayName: 'Task',
		name: 'task',
		type: 'string',
		typeOptions: { rows: 4 },
		default: '',
		required: true,
		displayOptions: only('run', 'start'),
		description: 'What the agent shall do',
	},
	{ ...REPOSITORY, displayOptions: only('run', 'start') },
	{
		displayName: 'Agents',
		name: 'agents',
		type: 'string',
		typeOptions: { rows: 2 },
		default: '',
		placeholder: 'e.g. claude',
		displayOptions: only('run', 'start'),
		description: 'One to a line, as NAME or NAME:MODEL; more than one is a race. Empty: the default agent.',
	},
	{
		displayName: 'Checks',
		name: 'checks',
		type: 'string',
		typeOptions: { rows: 2 },
		default: '',
		placeholder: 'e.g. pytest -q',
		displayOptions: only('run', 'start'),
		description: 'Commands, one to a line, that must pass on the result',
	},
];

const FLOW: INodeProperties[] = [
	{
		displayName: 'Source',
		name: 'source',
		type: 'options',
		options: [
			{ name: 'File of the Repository', value: 'name' },
			{ name: 'Text', value: 'text' },
		],
		default: 'text',
		displayOptions: only('flow', 'run'),
		description: 'Where the flow is written',
	},
	{
		displayName: 'Flow',
		name: 'flow',
		type: 'string',
		typeOptions: { rows: 10 },
		default: '',
		required: true,
		placeholder: 'nodes: {main: {task: "..."}}',
		displayOptions: { show: { resource: ['flow'], operation: ['run'], source: ['text'] } },
		description: 'The flow as YAML or JSON',
	},
	{
		displayName: 'Flow Name',
		name: 'flowName',
		type: 'string',
		default: '',
		required: true,
		placeholder: 'e.g. release',
		displayOptions: { show: { resource: ['flow'], operation: ['run'], source: ['name'] } },
		description: 'Name of a file in .corral/flows of the repository, without its ending',
	},
	{ ...REPOSITORY, displayOptions: only('flow', 'run') },
	{
		displayName: 'Inputs',
		name: 'inputs',
		type: 'json',
		default: '{}',
		displayOptions: only('flow', 'run'),
		description: 'Values of the inputs that the flow declares',
	},
];

const OPTIONS: INodeProperties = {
	displayName: 'Options',
	name: 'options',
	type: 'collection',
	placeholder: 'Add option',
	default: {},
	displayOptions: { show: { resource: ['run', 'flow'], operation: ['start', 'run'] } },
	options: [
		{ displayName: 'Budget (USD)', name: 'budget_usd', type: 'number', typeOptions: { minValue: 0, numberPrecision: 2 }, default: 2, description: 'Most that the run may cost' },
		{ displayName: 'Callback URL', name: 'callback', type: 'string', default: '', description: 'Address that is posted to once, when the run is over or waits for an answer; {{ $execution.resumeUrl }} with a Wait node of n8n' },
		{ displayName: 'Idempotency Key', name: 'key', type: 'string', typeOptions: { password: false }, default: '', description: 'The same key with the same fields never starts a second run. Empty: one for each execution, node and item.' },
		{ displayName: 'Labels', name: 'labels', type: 'json', default: '{}', description: 'Labels of the run, as {"team": "web"}' },
		{ displayName: 'Merge', name: 'merge', type: 'options', options: [{ name: 'Automatically', value: 'auto' }, { name: 'Never', value: 'never' }], default: 'never', description: 'Whether Corral merges a good result by itself; this needs a token with the scope merge' },
		{ displayName: 'More Fields', name: 'more', type: 'json', default: '{}', description: 'Other fields of POST /api/v1/runs, as {"retries": 1}' },
		{ displayName: 'Name', name: 'name', type: 'string', default: '', description: 'Name of the run' },
		{ displayName: 'Read Only', name: 'read_only', type: 'boolean', default: false, description: 'Whether a run that changes nothing is a success' },
		{ displayName: 'Timeout', name: 'timeout', type: 'string', default: '', placeholder: 'e.g. 20m', description: 'Longest time of an attempt' },
	],
};

const RUN: INodeProperties = {
	displayName: 'Run ID',
	name: 'run',
	type: 'string',
	default: '={{ $json.run }}',
	required: true,
	displayOptions: only('run', 'get', 'wait', 'stop', 'diff', 'preview', 'merge', 'undo'),
	description: 'ID of the run, the beginning of one, or @last',
};

const WAIT: INodeProperties[] = [
	{
		displayName: 'Mode',
		name: 'mode',
		type: 'options',
		options: [
			{ name: 'Callback', value: 'callback', description: 'The execution is stored and costs nothing until Corral calls; Corral must reach the address of n8n' },
			{ name: 'Polling', value: 'poll', description: 'The execution stays open and asks every few seconds' },
		],
		default: 'poll',
		displayOptions: only('run', 'wait'),
	},
	{
		displayName: 'Limit (Minutes)',
		name: 'limitMinutes',
		type: 'number',
		typeOptions: { minValue: 0 },
		default: 60,
		displayOptions: only('run', 'wait'),
		description: 'Longest wait. Polling then fails; by callback, the workflow continues with the items that it had (0: no limit).',
	},
	{
		displayName: 'Every (Seconds)',
		name: 'everySeconds',
		type: 'number',
		typeOptions: { minValue: 1 },
		default: 5,
		displayOptions: { show: { resource: ['run'], operation: ['wait'], mode: ['poll'] } },
		description: 'Time between two looks',
	},
];

const MERGE: INodeProperties[] = [
	{
		displayName: 'Strategy',
		name: 'strategy',
		type: 'options',
		options: [
			{ name: 'Auto', value: 'auto', description: 'Only if nothing conflicts' },
			{ name: 'Branch', value: 'branch', description: 'Onto a branch of its own' },
			{ name: 'Ours', value: 'ours', description: 'The branch wins where both changed a line' },
			{ name: 'Pull Request', value: 'pr', description: 'As a draft on the forge' },
			{ name: 'Rebase', value: 'rebase' },
			{ name: 'Squash', value: 'squash', description: 'As one commit' },
			{ name: 'Theirs', value: 'theirs', description: 'The run wins where both changed a line' },
		],
		default: 'auto',
		displayOptions: only('run', 'preview', 'merge'),
	},
	{
		displayName: 'Into',
		name: 'into',
		type: 'string',
		default: '',
		displayOptions: only('run', 'preview', 'merge'),
		description: 'Branch to merge into. Empty: the one that the run started from.',
	},
	{
		displayName: 'Pick',
		name: 'pick',
		type: 'string',
		default: '',
		displayOptions: only('run', 'preview', 'merge'),
		description: 'Number or ID of another attempt than the winner',
	},
];

const ATTEMPT: INodeProperties = {
	displayName: 'Attempt',
	name: 'attempt',
	type: 'string',
	default: '',
	displayOptions: only('run', 'diff'),
	description: "Number or ID of an attempt. Empty: the winner's.",
};

const INBOX: INodeProperties[] = [
	{
		displayName: 'Run ID',
		name: 'ofRun',
		type: 'string',
		default: '',
		displayOptions: only('inbox', 'list'),
		description: 'List entries of this run alone',
	},
	{
		displayName: 'Answered Too',
		name: 'all',
		type: 'boolean',
		default: false,
		displayOptions: only('inbox', 'list'),
		description: 'Whether to list entries that are answered, too',
	},
	{
		displayName: 'Entry ID',
		name: 'entry',
		type: 'string',
		default: '={{ $json.id }}',
		required: true,
		displayOptions: only('inbox', 'answer'),
	},
	{
		displayName: 'Answer',
		name: 'answer',
		type: 'string',
		default: '',
		required: true,
		placeholder: 'e.g. yes',
		displayOptions: only('inbox', 'answer'),
		description: 'One of the choices of the entry, or any text where it has none',
	},
];

export const PROPERTIES: INodeProperties[] = [
	RESOURCE,
	RUN_OPERATION,
	INBOX_OPERATION,
	FLOW_OPERATION,
	...START,
	...FLOW,
	OPTIONS,
	RUN,
	...WAIT,
	...MERGE,
	ATTEMPT,
	...INBOX,
];
