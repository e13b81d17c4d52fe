// Peer of a trivial task: node sandcastle.mjs REPOSITORY ROUNDS, in a folder with its node_modules; prints the median in seconds.
import { pathToFileURL } from "node:url";

const load = async (name) => import(pathToFileURL(`node_modules/@ai-hero/sandcastle/dist/${name}.js`).href);
const { run, claudeCode } = await load("index");
const { noSandbox } = await load("sandboxes/no-sandbox");

const taken = [];
for (let round = 0; round <= Number(process.argv[3]); round++) {
  const begun = performance.now();
  await run({
    agent: claudeCode("scripted"), sandbox: noSandbox(), prompt: "do it", cwd: process.argv[2], maxIterations: 1,
    branchStrategy: { type: "branch", branch: `agent/${process.pid}-${round}` },
  });
  if (round > 0) taken.push((performance.now() - begun) / 1000); // the first one warms up
}
taken.sort((one, other) => one - other);
console.log(taken[Math.floor(taken.length / 2)]);
