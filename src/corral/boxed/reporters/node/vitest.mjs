// A reporter for vitest: each test by id, and the end of the run.
import { createRequire } from 'node:module';

const { send, short, within, nonce } = createRequire(import.meta.url)('./preload.cjs');
const OUTCOMES = { passed: 'passed', pass: 'passed', failed: 'failed', fail: 'failed', skipped: 'skipped', skip: 'skipped', todo: 'skipped' };

export default class Reporter {
  onInit() {
    this.id = nonce();
    this.over = false;
    process.env.CORRAL_REPORT_IN = 'vitest';
    send({ e: 'begin', k: 'vitest', s: this.id, a: 'vitest' });
  }

  test(file, names, state) {
    const outcome = OUTCOMES[state];
    if (outcome) send({ e: 'test', s: this.id, i: short([within(file), ...names].join(' > ')), o: outcome });
  }

  onTestRunEnd(modules, errors, reason) {
    for (const module of modules) {
      if (module.errors().length) this.test(module.moduleId, [], 'failed');
      for (const each of module.children.allTests()) {
        const names = [each.name];
        for (let above = each.parent; above && above.type === 'suite'; above = above.parent) names.unshift(above.name);
        const { state } = each.result();
        this.test(module.moduleId, names, each.options.fails && state === 'passed' ? 'passed' : state);
      }
    }
    this.end(reason === 'passed' && !errors.length ? 0 : 1);
  }

  // vitest before 3
  onFinished(files = [], errors = []) {
    if (this.over) return;
    let bad = errors.length > 0;
    const walk = (file, names, task) => {
      if (task.type === 'suite') for (const each of task.tasks) walk(file, [...names, task.name], each);
      else this.test(file, [...names, task.name], task.result ? task.result.state : task.mode);
      bad = bad || (task.result && task.result.state === 'fail');
    };
    for (const file of files) for (const task of file.tasks) walk(file.filepath, [], task);
    this.end(bad ? 1 : 0);
  }

  end(code) {
    if (this.over) return;
    this.over = true;
    send({ e: 'end', s: this.id, c: code });
  }
}
