'use strict';
// Reporter in each Node program of a check: tests by id, programs that end early, assertions that were replaced.
// It needs Node 18 and nothing else, and it never breaks what it reports on.

const fs = require('fs');
const path = require('path');
const { isMainThread } = require('worker_threads');

const channel = process.env.CORRAL_REPORT;
const tree = (process.env.CORRAL_REPORT_TREE || '').replace(/\/+$/, '') + '/';
const io = { openSync: fs.openSync, writeSync: fs.writeSync, closeSync: fs.closeSync, readFileSync: fs.readFileSync };
const { stringify } = JSON; // the work may replace it
const LONGEST = 900; // of a name, so that a line fits into one write that nobody else's can split
const pid = process.pid;

// --- the channel

const short = (text) => {
  text = String(text);
  if (text.length <= LONGEST) return text;
  let sum = 0;
  for (const char of text) sum = (sum * 31 + char.codePointAt(0)) >>> 0;
  return `${text.slice(0, LONGEST)}...${sum.toString(16)}`;
};

const ascii = (text) => text.replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

function send(event) {
  let file;
  try {
    file = io.openSync(channel, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
  } catch {
    return; // nobody listens
  }
  try {
    if (event.e === 'begin') event.v = [`Node ${process.versions.node}`];
    const line = Buffer.from(ascii(stringify(event)) + '\n');
    for (let tries = 0; tries < 1000; tries++) {
      try {
        io.writeSync(file, line);
        break;
      } catch (error) {
        if (error.code !== 'EAGAIN') break;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      }
    }
  } finally {
    io.closeSync(file);
  }
}

const quietly = (does) => (...args) => {
  try {
    return does(...args);
  } catch {
    return undefined;
  }
};

let count = 0;
const nonce = () => `${pid}.${Math.random().toString(36).slice(2, 10)}.${++count}`;

// --- places

const plain = (file) => (file.startsWith('file://') ? decodeURIComponent(file.slice(7)) : file);
const inTree = (file) => file.startsWith(tree) && !file.slice(tree.length - 1).includes('/node_modules/');
const within = (file) => (file.startsWith(tree) ? file.slice(tree.length) : file);
// What a check may run, by its name; and what is a test by its place or name, which is the base's where work is judged.
const looksLikeTest = (file) => /(^|[/._-])(tests?|specs?|checks?|verify|__tests__)([/._-]|$)/i.test(within(file));
const isTest = (file) => /(^|\/)(tests?|__tests__)\/|[._-](test|spec)\.[cm]?[jt]sx?$/i.test(within(file));

function frames() {
  const limit = Error.stackTraceLimit;
  const prepare = Error.prepareStackTrace;
  Error.stackTraceLimit = 100;
  Error.prepareStackTrace = (_, sites) => sites;
  try {
    return new Error().stack
      .map((site) => ({ file: plain(site.getFileName() || ''), line: site.getLineNumber() || 0 }))
      .filter((site) => site.file !== __filename);
  } finally {
    Error.stackTraceLimit = limit;
    Error.prepareStackTrace = prepare;
  }
}

// --- plain programs

const script = { id: null, main: null, over: false, early: null, crashed: false, handled: null, left: false, promises: [] };

function mainFile() {
  if (process.argv.length > 1 && process.argv[1]) {
    let file = process.argv[1];
    try {
      file = fs.realpathSync(file);
    } catch {
      for (const end of ['.js', '.cjs', '.mjs', '/index.js']) if (fs.existsSync(file + end)) file += end;
    }
    return inTree(file) ? file : null;
  }
  return process.execArgv.some((word) => /^(-e|--eval|-p|--print|-pe)/.test(word)) ? '-e' : null;
}

function hasMore(file, line) {
  if (file === '-e' || !file.startsWith('/')) return true;
  const lines = io.readFileSync(file, 'utf8').split('\n');
  const rest = lines.slice(line).join('\n').replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
  return /[^\s(){}[\];,]/.test(rest) || /assert|expect|[=!]==?|\bthrow\b|\bif\b/.test(lines[line - 1] || '');
}

function endedBy(code) {
  if (script.over || (code !== undefined && code !== null && Number(code) !== 0)) return null;
  const stack = frames();
  const own = stack.filter((site) => inTree(site.file) || /^\[eval/.test(site.file));
  const culprit = own[0];
  const isMain = (file) => file === script.main || /^\[eval/.test(file);
  if (!culprit || isMain(culprit.file) || isTest(culprit.file)) return null;
  const above = own.filter((site) => site.file !== culprit.file);
  const harness = above.filter((site) => isMain(site.file) || looksLikeTest(site.file));
  const pending = harness.length
    ? harness.some((site) => hasMore(isMain(site.file) ? script.main : site.file, site.line))
    : script.main !== '-e' && looksLikeTest(script.main || '');
  return pending ? `\`${within(culprit.file)}\` ended it with process.exit` : null;
}

const noteExit = quietly((code) => {
  const words = endedBy(code);
  if (words) script.early = words;
});

function watchHandlers() {
  // What the work does with errors that nothing caught can hide that its check failed.
  for (const name of ['on', 'addListener', 'once', 'prependListener', 'prependOnceListener']) {
    const original = process[name];
    process[name] = function (event, listener) {
      if ((event === 'uncaughtException' || event === 'unhandledRejection') && typeof listener === 'function') {
        const site = quietly(() => frames().find((each) => inTree(each.file)))();
        if (site && site.file !== script.main && !isTest(site.file)) {
          const handler = function (...args) {
            script.handled = `\`${within(site.file)}\``;
            return listener.apply(this, args);
          };
          handler.listener = listener;
          return original.call(this, event, handler);
        }
      }
      return original.call(this, event, listener);
    };
  }
}

function judgeScript(main) {
  script.id = nonce();
  script.main = main;
  // Soft: a server in the background is ended from outside, and code that ends a program from inside is seen.
  send({ e: 'begin', k: 'node', s: script.id, a: short(main === '-e' ? 'node -e' : `node ${within(main)}`), soft: true });
  const exit = process.exit;
  process.exit = function (code) {
    script.left = true; // code that ends it may leave something undone
    noteExit(code === undefined ? process.exitCode : code);
    return exit.call(this, code);
  };
  const really = process.reallyExit;
  process.reallyExit = function (code) {
    if (!script.over) {
      noteExit(code);
      endScript(code);
    }
    return really.call(this, code);
  };
  if (process.execve) {
    const execve = process.execve;
    process.execve = function (...args) {
      noteExit(0);
      endScript(0);
      return execve.apply(this, args);
    };
  }
  watchHandlers();
  watchPromises();
  process.on('uncaughtExceptionMonitor', () => {
    // Code that handles it itself may continue; nobody may change what becomes of it otherwise.
    if (process.listenerCount('uncaughtException') === 0) script.crashed = true;
  });
}

// What the program began while it was loaded and never came to an end of: Node ends with 0 where nothing is left to do.
const shown = require('util').inspect;
const MOST_PROMISES = 1000;

const watchPromises = quietly(() => {
  const { promiseHooks } = require('v8');
  if (!promiseHooks) return;
  script.promises = [];
  const stop = promiseHooks.onInit((promise) => {
    if (script.promises.length < MOST_PROMISES) script.promises.push(promise);
  });
  setImmediate(stop).unref();
});

const stillWaits = quietly(() => script.promises.some((each) => /^\S+ \{ <pending>/.test(shown(each, { depth: 0 }))));

const endScript = quietly((code) => {
  if (script.over || script.id === null) return;
  script.over = true;
  const good = !code;
  let words = script.early;
  if (good && !words && script.handled) words = `${script.handled} handled an error that nothing else caught`;
  if (good && !words && script.crashed) words = 'code that ran after an error which nothing caught ended it with success';
  if (words) send({ e: 'exit', s: script.id, w: words });
  else if (good && !script.left && stillWaits()) {
    send({ e: 'doubt', weak: true, w: `\`${short(within(script.main))}\` ended while it still waited for an answer` });
  }
  send({ e: 'end', s: script.id, c: Number(code) || 0 });
});

// --- assertions, compared at the end with what they were at the start

let asserts = null;

function guardAsserts() {
  const assert = require('assert');
  asserts = [];
  for (const [shown, object] of [['assert', assert], ['assert.strict', assert.strict]]) {
    for (const name of Object.keys(object)) {
      if (typeof object[name] === 'function') asserts.push([shown, object, name, object[name]]);
    }
  }
}

const compareAsserts = quietly(() => {
  for (const [shown, object, name, original] of asserts || []) {
    if (object[name] !== original) send({ e: 'doubt', w: `code of the work replaced \`${shown}.${name}\`` });
  }
});

// --- the language and what Node has, compared in the same way

let builtins = null;
const MOST_BUILTINS = 10;

function sendReplaced(known) {
  const names = known ? known.replaced() : [];
  for (let place = 0; place < names.length && place < MOST_BUILTINS; place++) {
    send({ e: 'doubt', weak: true, w: `code that ran in the check replaced \`${names[place]}\`` });
  }
}

const guardBuiltins = quietly(() => {
  builtins = new (require('./builtins.cjs').Builtins)(globalThis);
});

const compareBuiltins = quietly(() => {
  sendReplaced(builtins);
  const { stdout } = process;
  if (builtins && Object.prototype.hasOwnProperty.call(stdout, 'write')) {
    send({ e: 'doubt', weak: true, w: 'code that ran in the check replaced `process.stdout.write`' });
  }
});

// --- node:test: its stream of events, in the process that prints them

const streams = new WeakMap();

function testStream(stream) {
  let session = streams.get(stream);
  if (!session) {
    session = { id: nonce(), names: [], over: false, bad: false };
    streams.set(stream, session);
    open.add(session);
    const main = process.execArgv.includes('--test') ? ' --test' : ` ${within(process.argv[1] || '')}`;
    send({ e: 'begin', k: 'node', s: session.id, a: short(`node${main}`.trim()) });
    process.env.CORRAL_REPORT_IN = 'node:test';
  }
  return session;
}

const open = new Set();

const testEvent = quietly((stream, { type, data }) => {
  if (process.env.NODE_TEST_CONTEXT) return;
  const session = testStream(stream);
  if (type === 'test:start') {
    session.names.length = data.nesting;
    session.names[data.nesting] = data.name;
  } else if (type === 'test:pass' || type === 'test:fail') {
    if (data.details && data.details.type === 'suite' && type === 'test:pass') return;
    const above = session.names.slice(0, data.nesting);
    const file = data.file && data.file !== data.name && within(data.file) !== data.name ? [within(data.file)] : [];
    const skipped = data.skip !== undefined && data.skip !== false;
    const todo = data.todo !== undefined && data.todo !== false;
    const outcome = skipped ? 'skipped' : todo ? 'xfailed' : type === 'test:pass' ? 'passed' : 'failed';
    if (outcome === 'failed') session.bad = true;
    send({ e: 'test', s: session.id, i: short([...file, ...above, within(String(data.name))].join(' > ')), o: outcome });
  } else if ((type === 'test:diagnostic' && data.nesting === 0 && /^tests \d/.test(data.message)) || (type === 'test:summary' && !data.file)) {
    endSession(session, session.bad ? 1 : 0);
  }
});

function endSession(session, code) {
  if (session.over) return;
  session.over = true;
  open.delete(session);
  send({ e: 'end', s: session.id, c: code });
}

function hookStreams() {
  const { Readable } = require('stream');
  const push = Readable.prototype.push;
  Readable.prototype.push = function (chunk, encoding) {
    if (chunk !== null && typeof chunk === 'object' && this.constructor.name === 'TestsStream' && chunk.type) {
      testEvent(this, chunk);
    }
    return push.call(this, chunk, encoding);
  };
}

// --- mocha: its runner is an emitter that gets listeners before it runs

const runners = new WeakSet();

function mochaRunner(runner, on) {
  runners.add(runner);
  const session = { id: nonce(), over: false };
  const name = (test) => short([test.file ? within(test.file) : null, ...test.titlePath()].filter(Boolean).join(' > '));
  const listen = (event, does) => on.call(runner, event, quietly(does));
  let failed = 0;
  let done = 0;
  listen('start', () => {
    process.env.CORRAL_REPORT_IN = 'mocha';
    send({ e: 'begin', k: 'mocha', s: session.id, a: short(`mocha ${process.argv.slice(2).join(' ')}`.trim()) });
  });
  listen('pass', (test) => send({ e: 'test', s: session.id, i: name(test), o: 'passed' }));
  listen('pending', (test) => send({ e: 'test', s: session.id, i: name(test), o: 'skipped' }));
  listen('fail', (test) => {
    failed++;
    send({ e: 'test', s: session.id, i: name(test), o: 'failed' });
  });
  listen('test end', () => done++);
  listen('end', () => {
    const missing = failed ? 0 : Math.max(0, (runner.total || 0) - done);
    send({ e: 'end', s: session.id, c: failed ? 1 : 0, m: missing });
  });
}

const GLOBALS = ['it', 'test', 'specify', 'describe', 'context', 'suite', 'before', 'after', 'beforeEach', 'afterEach', 'expect'];
const suites = new WeakMap();

// mocha sets its functions anew for each file; what the file and all it loads made of them shows when it is loaded.
function watchGlobals(suite, on) {
  let watch = suites.get(suite);
  if (!watch) {
    let known = {};
    watch = quietly((context) => {
      known = {};
      for (const name of GLOBALS) known[name] = context[name];
    });
    suites.set(suite, watch);
    on.call(suite, 'post-require', quietly((context) => compareGlobals(known, context)));
  } else {
    suite.removeListener('pre-require', watch);
  }
  on.call(suite, 'pre-require', watch); // behind those that set them
}

function compareGlobals(known, now) {
  for (const name of GLOBALS) {
    if (typeof known[name] === 'function' && now[name] !== undefined && now[name] !== known[name]) {
      send({ e: 'doubt', w: `the function \`${name}\` of the test runner was replaced` });
    }
  }
}

function hookEmitters() {
  const { EventEmitter } = require('events');
  for (const name of ['on', 'addListener']) {
    const original = EventEmitter.prototype[name];
    EventEmitter.prototype[name] = function (event, listener) {
      if (this.constructor.name === 'Runner' && typeof this.runSuite === 'function' && !runners.has(this)) {
        mochaRunner(this, original);
      }
      const result = original.call(this, event, listener);
      if (event === 'pre-require' && this.constructor.name === 'Suite') quietly(watchGlobals)(this, original);
      return result;
    };
  }
}

// --- jest: the results of files, in the process that prints them

const OUTCOMES = { passed: 'passed', failed: 'failed', pending: 'skipped', skipped: 'skipped', disabled: 'skipped', todo: 'skipped' };

function jestRunner(exported) {
  const runner = exported && exported.default;
  if (!runner || !runner.prototype || runner.prototype.corralReports) return;
  const session = { id: null, open: 0, bad: false };
  Object.defineProperty(runner.prototype, 'corralReports', { value: true });
  const { on, runTests } = runner.prototype;
  const report = quietly((test, result) => {
    const file = within(test.path || '');
    if (result.testExecError || (result.failureMessage && !result.testResults.length)) {
      send({ e: 'test', s: session.id, i: short(file), o: 'failed' });
    }
    for (const each of result.testResults || []) {
      const outcome = OUTCOMES[each.status];
      if (outcome) send({ e: 'test', s: session.id, i: short(`${file} > ${[...each.ancestorTitles, each.title].join(' > ')}`), o: outcome });
    }
  });
  runner.prototype.on = function (event, listener) {
    if (event !== 'test-file-success' && event !== 'test-file-failure') return on.call(this, event, listener);
    return on.call(this, event, (found) => {
      // Newer emitters wrap what was emitted.
      const [test, result] = Array.isArray(found) ? found : found.data || [];
      if (event === 'test-file-success') report(test, result);
      else quietly(() => send({ e: 'test', s: session.id, i: short(within(test.path)), o: 'failed' }))();
      return listener(found);
    });
  };
  runner.prototype.runTests = async function (...args) {
    if (session.open++ === 0) {
      session.id = nonce();
      process.env.CORRAL_REPORT_IN = 'jest';
      send({ e: 'begin', k: 'jest', s: session.id, a: short(`jest ${process.argv.slice(2).join(' ')}`.trim()) });
    }
    const result = await runTests.apply(this, args);
    if (--session.open === 0) send({ e: 'end', s: session.id });
    return result;
  };
}

const MATCHERS = Symbol.for('$$jest-matchers-object');

function jestEnvironment(exported) {
  const Environment = exported && (exported.TestEnvironment || exported.default);
  if (!Environment || Environment.prototype.handleTestEvent) return;
  const matchers = (environment) => ({ ...((environment.global[MATCHERS] || {}).matchers || {}) });
  Environment.prototype.handleTestEvent = quietlyAs(function (event) {
    if (event.name === 'setup') {
      const { Builtins, MODULES } = require('./builtins.cjs');
      const builtins = new Builtins(this.global, MODULES, (name) => /^(set|console)/.test(name));
      this.corralKnown = { globals: { ...event.runtimeGlobals }, matchers: matchers(this), builtins };
    } else if (event.name === 'run_finish' && this.corralKnown) {
      sendReplaced(this.corralKnown.builtins);
      compareGlobals(this.corralKnown.globals, this.global);
      const now = matchers(this);
      for (const [name, known] of Object.entries(this.corralKnown.matchers)) {
        if (now[name] !== known) send({ e: 'doubt', w: `the matcher \`${name}\` of jest was replaced` });
      }
    }
  });
}

const quietlyAs = (does) =>
  function (...args) {
    try {
      does.apply(this, args);
    } catch {
      // a reporter never breaks what it reports on
    }
  };

function hookJest(nested) {
  const { Module } = require('module');
  const load = Module._extensions['.js'];
  Module._extensions['.js'] = function (module, filename) {
    const result = load.call(this, module, filename);
    if (!nested && filename.endsWith('/jest-runner/build/index.js')) quietly(jestRunner)(module.exports);
    if (/\/jest-environment-(node|jsdom)\/build\/index\.js$/.test(filename)) quietly(jestEnvironment)(module.exports);
    return result;
  };
}

// --- vitest: a reporter of ours beside those it would have

function hookVitest() {
  const main = process.argv[1] || '';
  if (!/\/vitest(\.mjs)?$/.test(main) || process.argv.some((word) => /^(--merge-reports|list|init|complete|--help|--version)/.test(word))) return;
  const given = process.argv.some((word) => /^--reporters?(=|$)/.test(word));
  const more = [...(given ? [] : ['--reporter=default']), `--reporter=${path.join(__dirname, 'vitest.mjs')}`];
  const rest = process.argv.indexOf('--');
  process.argv.splice(rest < 0 ? process.argv.length : rest, 0, ...more);
}

// --- the start

function start() {
  if (!channel || tree === '/' || !isMainThread) return;
  const depth = Number(process.env.CORRAL_REPORT_DEPTH) || 0;
  const inner = depth > 0 || Boolean(process.env.CORRAL_REPORT_IN);
  const child = Boolean(process.env.NODE_TEST_CONTEXT);
  const emit = process.emit;
  const main = mainFile();
  if (main !== null && (!inner || child || looksLikeTest(main)) && !process.execArgv.includes('--test')) {
    process.env.CORRAL_REPORT_DEPTH = String(depth + 1);
    judgeScript(main);
    guardAsserts();
    guardBuiltins();
  } else if (/\/_?mocha(\.js)?$/.test(process.argv[1] || '')) {
    guardBuiltins(); // it loads tests into its own process; others have a world of their own for them
  }
  process.emit = function (event, ...args) {
    const result = emit.call(this, event, ...args);
    if (event === 'exit') {
      compareBuiltins();
      compareAsserts();
      endScript(process.exitCode === undefined ? args[0] : process.exitCode);
    }
    return result;
  };
  const nested = !child && Boolean(process.env.CORRAL_REPORT_IN);
  hookJest(nested); // in its workers too
  if (nested) return;
  hookStreams();
  hookEmitters();
  hookVitest();
}

quietly(start)();
module.exports = { send, short, within, nonce };
