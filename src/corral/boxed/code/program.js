// Runs one JavaScript or TypeScript program in Deno. The protocol has a connection of its own, opened before the
// program is loaded; afterwards nothing in this process may open another.
const port = Number(Deno.args[0]);
const connection = await Deno.connect({ hostname: "127.0.0.1", port });
Deno.permissions.revokeSync({ name: "net" });

// What the program may overwrite is taken before it is loaded.
const { parse, stringify } = JSON;
const { apply } = Reflect;
const { exit } = Deno;
const encoder = new TextEncoder(), decoder = new TextDecoder();
const encode = encoder.encode.bind(encoder), decode = decoder.decode.bind(decoder);
const write = connection.write.bind(connection), read = connection.read.bind(connection);
const then = Promise.prototype.then;
const NewMap = Map, get = Map.prototype.get, set = Map.prototype.set, remove = Map.prototype.delete;
const OwnPromise = Promise, OwnError = Error, text = String;
const find = String.prototype.indexOf, cut = String.prototype.slice;
const { freeze, create, defineProperty, hasOwn } = Object;
const { NotCapable } = Deno.errors;

let writing = OwnPromise.resolve();
async function writeAll(bytes) {
  for (let at = 0; at < bytes.length;) at += await write(bytes.subarray(at));
}
function send(message) {
  const bytes = encode(stringify(message) + "\n");
  writing = apply(then, writing, [() => writeAll(bytes)]);
  return writing;
}

class ToolError extends OwnError {
  constructor(kind, message) {
    super(message);
    this.name = "ToolError";
    this.class = kind;
  }
}
freeze(ToolError.prototype);

const waiting = new NewMap();
let number = 0;
function call(name, given) {
  return new OwnPromise((resolve, reject) => {
    number += 1;
    apply(set, waiting, [number, { resolve, reject }]);
    const message = create(null);
    message.call = number;
    message.tool = name;
    message.arguments = given === undefined ? {} : given;
    apply(then, send(message), [undefined, reject]);
  });
}

const kept = [];
let rest = "";
async function line() {
  const buffer = new Uint8Array(65536);
  for (;;) {
    const end = apply(find, rest, ["\n"]);
    if (end >= 0) {
      kept[kept.length] = apply(cut, rest, [0, end]);
      rest = apply(cut, rest, [end + 1]);
      const whole = kept.join("");
      kept.length = 0;
      return parse(whole);
    }
    kept[kept.length] = rest;
    const count = await read(buffer);
    if (count === null) exit(0);
    rest = decode(buffer.subarray(0, count), { stream: true });
  }
}
async function listen() {
  for (;;) {
    const reply = await line();
    const one = apply(get, waiting, [reply.reply]);
    apply(remove, waiting, [reply.reply]);
    if (one === undefined) continue;
    if (hasOwn(reply, "error")) one.reject(new ToolError(reply.error.class, reply.error.message));
    else one.resolve(reply.value);
  }
}

function kindOf(error) {
  try {
    if (error instanceof ToolError) return error.class === "refused" ? "refused" : "program";
    if (error instanceof NotCapable) return "refused";
    if (error instanceof RangeError && /allocation failed/.test(error.message)) return "memory";
  } catch { /* a hostile object */ }
  return "program";
}
function wordsOf(error) {
  try {
    return apply(cut, text(error instanceof OwnError ? error.stack ?? error : error), [0, 4000]);
  } catch {
    return "it threw something that has no words";
  }
}
async function fail(error) {
  const message = create(null);
  message.failed = create(null);
  message.failed.class = kindOf(error);
  message.failed.message = wordsOf(error);
  await send(message);
}

const start = await line();
const tools = new Proxy(create(null), {
  get: (_, name) => typeof name === "string" && name !== "then" ? (given) => call(name, given) : undefined,
  has: (_, name) => start.tools.includes(name),
  ownKeys: () => [...start.tools],
  getOwnPropertyDescriptor: (_, name) =>
    start.tools.includes(name) ? { enumerable: true, configurable: true } : undefined,
});
for (const name of ["ToolError"]) defineProperty(globalThis, name, { value: ToolError });
globalThis.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  fail(event.reason);
});

listen();
try {
  const kind = start.language === "typescript" ? "application/typescript" : "text/javascript";
  const url = `data:${kind};base64,${start.source}`;
  const { default: main } = await import(url);
  if (typeof main !== "function") throw new OwnError("it has no `export default async function main(input, tools)`");
  const result = await main(start.input, tools);
  const body = stringify(result === undefined ? null : result);
  if (body === undefined) throw new OwnError("its result is no JSON");
  if (body.length > start.most) await send({ failed: { class: "output", message: `${body.length} characters` } });
  else await send({ result: result === undefined ? null : parse(body) });
} catch (error) {
  await fail(error);
}
