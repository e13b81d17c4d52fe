'use strict';
// Parts of the language and of Node that tests use, compared at the end with what they were at the start.
// What is added is a polyfill and hides nothing. Only loops by number: iterators may be replaced as well.

const { deleteProperty, ownKeys, getOwnPropertyDescriptor, defineProperty, getPrototypeOf } = Reflect;
const text = String;
const TYPES = [
  'Object', 'Function', 'Array', 'String', 'Number', 'Boolean', 'Symbol', 'BigInt', 'Date', 'RegExp', 'Promise', 'Map', 'Set',
  'Error', 'TypeError', 'RangeError',
];
const PLAIN = ['JSON', 'Math', 'Reflect', 'console'];
const FUNCTIONS = [...TYPES, ...PLAIN, 'parseInt', 'parseFloat', 'isNaN', 'isFinite', 'setTimeout', 'setInterval', 'setImmediate'];
const MODULES = ['fs', 'path', 'util', 'os', 'child_process'];
// Runners and libraries set these for good reasons, for each file anew.
const USUAL = new Set(['Error.prepareStackTrace', 'Error.stackTraceLimit', 'Error.captureStackTrace']);

class Builtins {
  constructor(global, modules = MODULES, kept = () => false) {
    this.known = [];
    this.size = 0;
    this.kept = kept;
    for (const name of FUNCTIONS) this.note('', global, name);
    for (const name of PLAIN) if (global[name]) this.all(name, global[name]);
    for (const name of TYPES) {
      this.all(name, global[name]);
      this.all(`${name}.prototype`, global[name].prototype);
    }
    if (global.performance) {
      this.inherited('performance', global.performance);
    }
    this.all('Array Iterator', getPrototypeOf(new global.Array()[Symbol.iterator]()));
    for (const name of modules) this.all(name, require(name));
    this.all('fs.promises', require('fs').promises);
  }

  all(shown, object) {
    for (const key of ownKeys(object)) this.note(shown, object, key);
  }

  // Note methods that an object has from its class: one of its own would hide them.
  inherited(shown, object) {
    const above = getPrototypeOf(object);
    this.all(shown, above);
    for (const key of ownKeys(above)) {
      const known = { name: `${shown}.${text(key)}`, object, key, value: undefined, about: null };
      if (!getOwnPropertyDescriptor(object, key)) this.known[this.size++] = known;
    }
  }

  note(shown, object, key) {
    const about = getOwnPropertyDescriptor(object, key);
    const name = typeof key === 'symbol' ? `${shown}[${text(key)}]` : shown ? `${shown}.${key}` : key;
    if (!about || !('value' in about) || key === 'constructor' || USUAL.has(name) || this.kept(name)) return;
    if (typeof about.value === 'function' || (!shown && typeof about.value === 'object')) {
      this.known[this.size++] = { name, object, key, value: about.value, about };
    }
  }

  // Return what was replaced, and put it back: what runs afterwards works as it should.
  replaced() {
    const found = [];
    let count = 0;
    for (let place = 0; place < this.size; place++) {
      const each = this.known[place];
      const now = getOwnPropertyDescriptor(each.object, each.key);
      if (each.about ? now && 'value' in now && now.value === each.value : !now) continue;
      try {
        if (each.about) defineProperty(each.object, each.key, each.about);
        else deleteProperty(each.object, each.key);
      } catch {
        // it stays as it is
      }
      defineProperty(found, count++, { value: each.name, writable: true, enumerable: true, configurable: true });
    }
    return found;
  }
}

module.exports = { Builtins, MODULES };
