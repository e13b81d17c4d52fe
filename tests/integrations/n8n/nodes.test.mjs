// The nodes of n8n against a real `corral serve`; started by tests/integrations/test_n8n.py.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { Context, Corral, CORRAL_URL, CorralApi, CorralTrigger, PACKAGE, perform, receiver, REPO, SIGNS, start, waited } from './context.mjs';

const servers = [];
after(() => servers.forEach((each) => each.close()));

test('a task is started, waited for, previewed, merged and taken back', async () => {
	const { run, status } = await start({ agents: 'mine', checks: 'test -e said.txt\n', options: { labels: '{"team": "web"}', budget_usd: 1 } });
	assert.equal(status, 'queued');
	const over = await waited(run);
	assert.deepEqual([over.run, over.status, over.labels], [run, 'done', { team: 'web' }]);
	assert.deepEqual(over.nodes[0].attempts[0].checks.map((each) => each.command), ['test -e said.txt']);
	const [diff] = await perform({ operation: 'diff', run });
	assert.match(diff.patch, /\+said/);
	const [preview] = await perform({ operation: 'preview', run });
	assert.deepEqual([preview.clean, preview.files], [true, ['said.txt']]);
	assert.equal(existsSync(path.join(REPO, 'said.txt')), false);
	const [merged] = await perform({ operation: 'merge', run });
	assert.equal(merged.merge.status, 'merged');
	assert.equal(existsSync(path.join(REPO, 'said.txt')), true);
	const [undone] = await perform({ operation: 'undo', run });
	assert.equal(undone.merge.status, 'undone');
	assert.equal(existsSync(path.join(REPO, 'said.txt')), false);
	assert.equal((await perform({ operation: 'get', run: run.slice(0, -1) }))[0].run, run);
});

test('a conflict is a result, not an error', async () => {
	const first = await waited((await start({ agents: 'mine' })).run);
	const other = await waited((await start({ agents: 'other' })).run);
	assert.equal((await perform({ operation: 'merge', run: other.run }))[0].merge.status, 'merged');
	const [preview] = await perform({ operation: 'preview', run: first.run });
	assert.equal(preview.clean, false);
	const [conflict] = await perform({ operation: 'merge', run: first.run });
	assert.deepEqual([conflict.merge.status, conflict.merge.conflicts.length], ['conflict', 1]);
	await perform({ operation: 'undo', run: other.run });
});

test('a race has one attempt for each agent', async () => {
	const over = await waited((await start({ agents: 'mine\nother', checks: 'test -e said.txt' })).run);
	assert.deepEqual(over.nodes[0].attempts.map((each) => each.agent).sort(), ['mine', 'other']);
});

test('a node that n8n repeats starts nothing twice', async () => {
	const first = await start({ agents: 'mine' }, { execution: 'same' });
	const again = await start({ agents: 'mine' }, { execution: 'same' });
	const next = await start({ agents: 'mine' }, { execution: 'another' });
	assert.equal(again.run, first.run);
	assert.notEqual(next.run, first.run);
	await Promise.all([waited(first.run), waited(next.run)]);
});

test('a run is stopped', async () => {
	const { run } = await start({ agents: 'slow' });
	const [stopped] = await perform({ operation: 'stop', run });
	assert.equal(stopped.status, 'stopped');
});

test('a flow asks, the answer is given, and the flow continues', async () => {
	const flow = 'nodes:\n  write: {task: "{{thing}}", agent: mine}\n  ok: {gate: "Merge it?", needs: [write]}\n';
	const whole = `inputs: {thing: {}}\n${flow}`;
	const common = { resource: 'flow', operation: 'run', repo: REPO, inputs: '{"thing": "x"}' };
	const [begun] = await perform({ ...common, source: 'text', flow: whole });
	assert.equal((await waited(begun.run)).status, 'waiting');
	const [entry] = await perform({ resource: 'inbox', operation: 'list', ofRun: begun.run });
	assert.match(entry.text, /Merge it\?/);
	const [given] = await perform({ resource: 'inbox', operation: 'answer', entry: entry.id, answer: 'yes' });
	assert.equal(given.answer, 'yes');
	assert.equal((await waited(begun.run)).status, 'done');
	const [named] = await perform({ ...common, source: 'name', flowName: 'write', inputs: {} });
	assert.equal((await waited(named.run)).status, 'done');
	await assert.rejects(perform({ ...common, source: 'name', flowName: '../../secret' }), /there is no flow|not found/i);
});

test('a workflow that waits by callback is resumed by Corral alone', async () => {
	const server = await receiver();
	servers.push(server);
	const begun = await start({ agents: 'signed' });
	const items = [{ json: begun }, { json: await start({ agents: 'mine' }) }];
	const parameters = { resource: 'run', operation: 'wait', mode: 'callback', run: '={{ $json.run }}', limitMinutes: 10 };
	const context = new Context(parameters, { items, resumeUrl: server.url });
	await new Corral().execute.call(context);
	assert.ok(context.waitsUntil > new Date());
	await server.next(); // the quick one; the other still works
	const early = await new Corral().webhook.call(context);
	assert.equal(early.workflowData, undefined, 'a call is not believed: the other run is not over');
	writeFileSync(path.join(SIGNS, 'go'), '');
	const { rawBody } = await server.next();
	assert.equal(JSON.parse(rawBody).data.run, begun.run);
	const { workflowData: [found] } = await new Corral().webhook.call(context);
	assert.deepEqual(found.map((each) => each.json.status), ['done', 'done']);
	assert.deepEqual(found.map((each) => each.pairedItem.item), [0, 1]);
});

test('a limit ends polling with a clear message', async () => {
	const { run } = await start({ agents: 'slow' });
	await assert.rejects(perform({ operation: 'wait', run, limitMinutes: 0 }), /is still (queued|running)/);
	await perform({ operation: 'stop', run });
});

test('the trigger adds its webhook, believes signed calls alone, each once, and removes it', async () => {
	const server = await receiver();
	servers.push(server);
	const context = new Context({ events: ['run.done'], withRun: true });
	context.webhookUrl = server.url;
	const { checkExists, create, delete: remove } = new CorralTrigger().webhookMethods.default;
	assert.equal(await checkExists.call(context), false);
	assert.equal(await create.call(context), true);
	assert.equal(await checkExists.call(context), true);
	const { run } = await start({ agents: 'mine' });
	const call = async (sent) => {
		context.request = sent;
		context.answered = undefined;
		return await new CorralTrigger().webhook.call(context);
	};
	const sent = await server.next();
	const forged = { ...sent, rawBody: Buffer.from(String(sent.rawBody).replace('run.done', 'run.fail')) };
	const old = { ...sent, headers: resigned(sent, context.kept.secret, -400) };
	for (const bad of [forged, old, { ...sent, headers: {} }, { headers: sent.headers }]) {
		assert.deepEqual(await call(bad), { noWebhookResponse: true });
		assert.equal(context.answered, 401);
	}
	const { workflowData: [[item]] } = await call(sent);
	assert.deepEqual([item.json.type, item.json.run.run, item.json.run.status], ['run.done', run, 'done']);
	assert.equal((await call(sent)).workflowData, undefined, 'a repeated call counts once');
	context.parameters.events = ['run.done', 'run.failed'];
	assert.equal(await checkExists.call(context), false, 'other events: it is added anew');
	await create.call(context);
	assert.equal(await remove.call(context), true);
	assert.equal(await remove.call(context), true, 'what is gone already is fine');
	assert.deepEqual(context.kept, {});
});

function resigned({ headers, rawBody }, secret, seconds) {
	const at = String(Number(headers['webhook-timestamp']) + seconds);
	const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
	const digest = createHmac('sha256', key).update(`${headers['webhook-id']}.${at}.`).update(rawBody).digest('base64');
	return { ...headers, 'webhook-timestamp': at, 'webhook-signature': `v1,${digest}` };
}

test('what goes wrong is said in one clear line with a hint', async () => {
	const wrong = { credentials: { token: 'not-a-token' } };
	await assert.rejects(start({}, wrong), (error) => error.httpCode === '401' && /token/i.test(error.message + error.description));
	await assert.rejects(perform({ operation: 'get', run: '01zzzz' }), (error) => error.httpCode === '404' && /01zzzz/.test(error.message));
	await assert.rejects(perform({ operation: 'get', run: ' ' }), /The run is missing/);
	for (const run of ['../tokens', '..', '.']) {
		await assert.rejects(perform({ operation: 'get', run }), (error) => error.httpCode === '404');
	}
	assert.equal((await perform({ operation: 'get', run: '@last' }))[0].status.length > 0, true);
	await assert.rejects(start({ options: { labels: '[1' } }), /Labels is not a JSON object/);
	await assert.rejects(start({ agents: 'nobody' }), /no agent is called `nobody`/);
	const down = { credentials: { baseUrl: 'http://127.0.0.1:9' } };
	await assert.rejects(start({}, down), (error) => /does not answer at http:\/\/127.0.0.1:9/.test(error.message) && /corral serve/.test(error.description));
	const [item] = await perform({ operation: 'get', run: '01zzzz' }, { tolerant: true });
	assert.match(item.error, /01zzzz/);
});

test('the credential is tried against the server', async () => {
	const { request } = new CorralApi().test;
	const context = new Context();
	const url = CORRAL_URL + request.url;
	const sent = { method: 'GET', url, timeout: 10_000, ignoreHttpStatusErrors: true };
	assert.equal((await context.helpers.httpRequestWithAuthentication('corralApi', sent)).statusCode, 200);
	context.credentials.token = 'x';
	assert.equal((await context.helpers.httpRequestWithAuthentication('corralApi', sent)).statusCode, 401);
});

test('the workflows use operations and parameters that exist', () => {
	const folder = path.join(PACKAGE, 'workflows');
	const files = readdirSync(folder);
	assert.equal(files.length, 2);
	const known = new Map(new Corral().description.properties.map((each) => [each.name, each]));
	for (const file of files) {
		const { nodes, connections } = JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
		const names = new Set(nodes.map((each) => each.name));
		const ours = nodes.filter((each) => each.type === 'n8n-nodes-corral.corral');
		assert.ok(ours.length >= 3, file);
		for (const each of ours) {
			const unknown = Object.keys(each.parameters).filter((name) => !known.has(name));
			assert.deepEqual(unknown, [], `${file}: ${each.name}`);
		}
		for (const [from, { main }] of Object.entries(connections)) {
			for (const { node } of main.flat()) assert.ok(names.has(from) && names.has(node), `${file}: ${from} -> ${node}`);
		}
	}
});
