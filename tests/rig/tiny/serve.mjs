// A tiny real model behind the part of ollama's wire format that our loop speaks: node serve.mjs NODE_MODULES MODEL.gguf
import http from "node:http";
import { pathToFileURL } from "node:url";

const [modules, modelPath] = process.argv.slice(2);
const { getLlama, LlamaChat } = await import(pathToFileURL(`${modules}/node-llama-cpp/dist/index.js`).href);
const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, logLevel: "error", maxThreads: 2 });
const model = await llama.loadModel({ modelPath });
const NAME = "smollm2";
const STOP = ["\n"]; // as `PARAMETER stop` of a Modelfile: so small a model does not know when it has said enough

function history(messages) {
  return messages.map(({ role, content }) => {
    const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
    return role === "assistant" ? { type: "model", response: [text] } : { type: role === "system" ? "system" : "user", text };
  });
}

async function answer(asked) {
  const context = await model.createContext({ contextSize: 4096 });
  try {
    const sequence = context.getSequence();
    const maxTokens = asked.max_completion_tokens ?? asked.max_tokens ?? 64;
    const turns = [...history(asked.messages), { type: "model", response: [] }];
    const { response, metadata } = await new LlamaChat({ contextSequence: sequence }).generateResponse(turns, {
      maxTokens, temperature: 0, customStopTriggers: STOP,
    });
    const used = sequence.tokenMeter.getState();
    return {
      text: response,
      why: metadata.stopReason === "maxTokens" ? "length" : "stop",
      usage: {
        prompt_tokens: used.usedInputTokens,
        completion_tokens: used.usedOutputTokens,
        total_tokens: used.usedInputTokens + used.usedOutputTokens,
      },
    };
  } finally {
    await context.dispose();
  }
}

function send(response, asked, { text, why, usage }) {
  const head = { id: "chatcmpl-1", created: 1, model: NAME };
  if (!asked.stream) {
    const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: why }];
    response.setHeader("Content-Type", "application/json");
    return response.end(JSON.stringify({ ...head, object: "chat.completion", choices, usage }));
  }
  response.setHeader("Content-Type", "text/event-stream");
  const chunk = (more) => response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...more })}\n\n`);
  chunk({ choices: [{ index: 0, delta: { role: "assistant", content: text }, finish_reason: null }] });
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: why }] });
  chunk({ choices: [], usage });
  return response.end("data: [DONE]\n\n");
}

async function serve(request, response) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const asked = parts.length ? JSON.parse(Buffer.concat(parts).toString()) : {};
  if (request.url === "/v1/chat/completions" && asked.model === NAME) return send(response, asked, await answer(asked));
  response.statusCode = 404;
  return response.end(JSON.stringify({ error: { message: `model '${asked.model}' not found`, type: "not_found_error" } }));
}

const server = http.createServer((request, response) =>
  serve(request, response).catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    response.statusCode = 500;
    response.end(JSON.stringify({ error: { message: String(error), type: "api_error" } }));
  }),
);
server.listen(0, "127.0.0.1", () => process.stdout.write(`127.0.0.1:${server.address().port}\n`));
