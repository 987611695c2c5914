// Ask people before something is done, from Node 18 or newer, with nothing but fetch:
//   SIGNOFF_URL=http://127.0.0.1:8080 SIGNOFF_KEY=signoff_… node approval.mjs
const base = process.env.SIGNOFF_URL ?? "http://127.0.0.1:8080";
const headers = { Authorization: `Bearer ${process.env.SIGNOFF_KEY}`, "Content-Type": "application/json" };

async function call(method, path, body) {
  for (;;) {
    const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) }).catch(() => null);
    if (answer?.ok) {
      const early = Number(answer.headers.get("Retry-After") ?? 0); // many wait: ask again after so many seconds
      await new Promise((resume) => setTimeout(resume, early * 1000));
      return answer.json();
    }
    if (answer && ![429, 503].includes(answer.status)) {
      const problem = await answer.json();
      throw new Error(`${problem.title}: ${problem.detail}`);
    }
    const seconds = Number(answer?.headers.get("Retry-After") ?? 1); // away, or busy: every call here may be repeated
    await new Promise((resume) => setTimeout(resume, seconds * 1000));
  }
}

function deleteRecords({ table_name, count }) {
  return `Deleted ${count} records from ${table_name}`; // what would be done
}

const name = process.argv[2] ?? `delete-${Date.now()}`;
let request = await call("POST", "/pending", {
  request_id: name, // asking again under the same name finds the same request
  action_description: "Delete 5 records from the table customers",
  agent_context: { task: "Clean up what customers asked us to forget" },
  action: "delete_records",
  arguments: { table_name: "customers", count: 5 },
});
if (request.status === "waiting") console.log(`waiting for people: ${request.slack_url ?? request.id}`);
while (request.status === "waiting") request = await call("GET", `/pending/${request.id}?wait=30`);

if (request.status === "not_required") {
  console.log(deleteRecords(request.action.arguments)); // no checkpoint wants anybody to be asked
} else if (request.status !== "approved") {
  console.error(`${request.status} by ${request.decided_by?.user_id ?? "nobody"}: ${request.reason ?? "no reason given"}`);
  process.exitCode = 1;
} else {
  const claim = await call("POST", `/pending/${request.id}/claim`, { digest: request.digest });
  const started = performance.now();
  const result = deleteRecords(claim.action.arguments); // as they were decided: reviewers may have edited them
  const seconds = (performance.now() - started) / 1000;
  await call("POST", `/pending/${request.id}/result`, { token: claim.token, status: "succeeded", result, seconds });
  console.log(result);
}
