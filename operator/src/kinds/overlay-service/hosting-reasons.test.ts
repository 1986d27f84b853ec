import { ApiError, type ManagementClient } from "@sallyport/api/client";
import { expect, test } from "vitest";
import { HostingReasons, NOT_HOSTED } from "./hosting-reasons.ts";

const { signal } = new AbortController();
const ANYTHING = {};

/** A network that answers "why not" so, or not at all; `asked` are its requests. */
function network(check?: object, isServiceThere = true) {
  const asked: string[] = [];
  const missing = new ApiError(404, "NOT_FOUND", "not found");
  const client = {
    async getCurrentIdentity() {
      asked.push("self");
      return { data: { id: "operator" } };
    },
    async explainAccess({ params: { id, serviceId } }: { params: { id: string; serviceId: string } }) {
      asked.push(`${id} ${serviceId}`);
      if (check === undefined) throw missing;
      if (check === ANYTHING) return { data: [] };
      return { data: { checks: [{ check: "service-policy", status: "failed", code: "NO_SERVICE_POLICY" }, check] } };
    },
    async detailService() {
      asked.push("service");
      if (!isServiceThere) throw missing;
      return { data: {} };
    },
  } as unknown as ManagementClient;
  return { asked, client };
}

test("the controller says why a service has no host, and what to do", async () => {
  const { asked, client } = network({
    ...{ check: "terminators", status: "failed", code: "NO_BIND_POLICY" },
    ...{ message: "nothing hosts it", remedies: [{ text: "Create a policy." }, { text: "Something else." }] },
  });
  const reasons = new HostingReasons();
  const expected = { reason: "NoBindPolicy", message: "nothing hosts it: Create a policy." };
  expect(await reasons.of(client, "web", NOT_HOSTED, signal)).toEqual(expected);
  expect(await reasons.of(client, "mail", NOT_HOSTED, signal)).toEqual(expected);
  expect(asked).toEqual(["self", "operator web", "operator mail"]);
});

test("a service that is hosted by now has no reason", async () => {
  const { client } = network({ check: "terminators", status: "ok", message: "hosted" });
  expect(await new HostingReasons().of(client, "web", NOT_HOSTED, signal)).toEqual(NOT_HOSTED);
  const stranger = network(ANYTHING);
  expect(await new HostingReasons().of(stranger.client, "web", NOT_HOSTED, signal)).toEqual(NOT_HOSTED);
});

test("a controller that cannot say it is not asked again; a service that has gone says nothing about its controller", async () => {
  const reasons = new HostingReasons();
  const silent = network();
  expect(await reasons.of(silent.client, "web", NOT_HOSTED, signal)).toEqual(NOT_HOSTED);
  expect(await reasons.of(silent.client, "web", NOT_HOSTED, signal)).toEqual(NOT_HOSTED);
  expect(silent.asked).toEqual(["self", "operator web", "service"]);
  const gone = network(undefined, false);
  for (let count = 0; count < 2; count++) {
    await expect(reasons.of(gone.client, "web", NOT_HOSTED, signal)).rejects.toMatchObject({ status: 404 });
  }
  expect(gone.asked.filter((each) => each === "operator web")).toHaveLength(2);
});

test("services that are asked about beyond ten in a second keep the reason that is known", async () => {
  const { asked, client } = network({ check: "terminators", status: "failed", code: "NO_BIND_POLICY", message: "m" });
  const reasons = new HostingReasons();
  const known = { reason: "NoIdentityMayHost", message: "as before" };
  const all = await Promise.all(Array.from({ length: 12 }, () => reasons.of(client, "web", known, signal)));
  expect(all.filter(({ reason }) => reason === "NoBindPolicy")).toHaveLength(10);
  expect(all.slice(10)).toEqual([known, known]);
  expect(asked.filter((each) => each === "operator web")).toHaveLength(10);
});
