import { setImmediate as turn } from "node:timers/promises";
import { silentLogger } from "@sallyport/wire";
import { afterEach, expect, test } from "vitest";
import { NetworkNotReadyError } from "./errors.ts";
import { NetworkClients } from "./network-clients.ts";

const ref = { namespace: "default", name: "main" };
const settings = { roleScope: "Global", allowAdminIdentities: false } as const;
const options = (password = "p") => ({
  name: "default/main",
  endpoints: ["https://localhost:1"] as const,
  credentials: { method: "password", username: "u", password } as const,
  requestTimeoutMs: 1_000,
  maxRequestsPerSecond: 10,
  log: silentLogger,
});

let changes = 0;
let clients: NetworkClients;
const fresh = (): NetworkClients => {
  changes = 0;
  const onChange = () => {
    changes += 1;
  };
  clients = new NetworkClients({ onChange });
  return clients;
};
const told = async (): Promise<number> => {
  await turn();
  await turn();
  return changes;
};
const reason = (): string => {
  try {
    clients.forNetwork(ref);
    return "usable";
  } catch (error) {
    return error instanceof NetworkNotReadyError ? error.reason : String(error);
  }
};

afterEach(async () => await clients.close());

test("a prepared connection is not used before it is put into use", async () => {
  fresh();
  expect(reason()).toBe("NetworkNotFound");
  clients.prepare(ref, settings, options());
  expect(reason()).toBe("NetworkNotReady");
  clients.use(ref);
  expect(reason()).toBe("usable");
  expect(await told()).toBe(1);
  await clients.remove(ref);
  expect(reason()).toBe("NetworkNotFound");
});

test("a network in use stays in use while its connection is prepared again, and one that is suspended suspended", async () => {
  fresh();
  const first = clients.set(ref, settings, options());
  expect(clients.prepare(ref, settings, options())).toBe(first);
  expect(reason()).toBe("usable");
  clients.suspend(ref, new NetworkNotReadyError("ControllerUnavailable", "m"));
  expect(clients.prepare(ref, settings, options())).toBe(first);
  expect(reason()).toBe("ControllerUnavailable");
  clients.use(ref);
  expect(reason()).toBe("usable");
});

test("other credentials make another connection, which users are told of", async () => {
  fresh();
  const first = clients.set(ref, settings, options());
  const scoped = { ...settings, roleScope: "Namespaced" } as const;
  expect(clients.set(ref, scoped, options())).toBe(first);
  expect(clients.forNetwork(ref)).toEqual({ client: first.client, settings: scoped });
  const before = await told();
  expect(clients.set(ref, settings, options("other"))).not.toBe(first);
  expect(await told()).toBe(before + 1);
  clients.set(ref, { ...settings, allowAdminIdentities: true }, options("other"));
  expect(await told()).toBe(before + 2);
  clients.set(ref, { ...settings, allowAdminIdentities: true }, options("other"));
  expect(await told()).toBe(before + 2);
});
