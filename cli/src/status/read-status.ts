/** Reads the state of a network. What the controller refuses of it is missing, and named. */
import { errorText } from "@sallyport/async";
import type { Entity } from "../entities/entity.ts";
import { listEntities } from "../entities/list.ts";
import { CommandError, ExitStatus } from "../errors.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import type { OpenNetwork } from "../network/open-network.ts";
import { controllerIdOf, inspectController } from "./inspect.ts";
import type { NetworkStatus, Observed, Unread } from "./network-status.ts";
import { problemsOf } from "./problems.ts";
import { authoritiesOf, countOf, failedDials, healthOf, leafOf, MAX_LISTED, versionOf } from "./readings.ts";
import { certificatesOf, controllersOf, disabledOf, linksOf, present, routersOf } from "./shaping.ts";
import { unhostedServices } from "./unhosted.ts";

const MANAGEMENT_IDENTITIES = `${MANAGEMENT_API}/identities`;
const DISABLED = "disabled = true";

/** What the controller itself knows, and no list has. */
const INSPECTIONS = ["process", "connected-routers", "routers-last-seen", "failed-dials"];

/** Keeps what goes wrong beside what can be read. */
class Reading {
  readonly unread: Unread[] = [];
  readonly #signal: AbortSignal;
  #parts = 0;
  #first: unknown;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** @throws CommandError when the controller is away */
  async part<T>(name: string, read: () => Promise<T>, otherwise: T): Promise<T> {
    this.#parts++;
    try {
      return await read();
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof CommandError && error.status === ExitStatus.Unreachable) throw error;
      this.#first ??= error;
      this.unread.push({ part: name, reason: errorText(error) });
      return otherwise;
    }
  }

  /** @throws what kept it from reading anything that needs a session */
  checkSession(parts: number): void {
    if (this.unread.length >= this.#parts - parts) throw this.#first;
  }
}

/** Parts that need no session. */
const PUBLIC_PARTS = 4;

/** @throws CommandError when there is no session, or the controller is away */
export async function readStatus({ name, caller }: OpenNetwork, signal: AbortSignal): Promise<NetworkStatus> {
  const now = Date.now();
  const reading = new Reading(signal);
  const part = reading.part.bind(reading);
  const entities = (called: string, kind: string, filter?: string): Promise<readonly Entity[]> => {
    const limit = filter === undefined ? undefined : MAX_LISTED;
    return part(called, () => listEntities(kindNamed(kind), { filter, limit }, caller), []);
  };
  const count = (called: string, path: string, filter?: string) =>
    part(called, () => countOf(path, caller, filter), undefined);

  // Alone, because it may begin a new session, which the others then have.
  const identities = await count("identities", MANAGEMENT_IDENTITIES);
  const leaf = await part("certificate of the controller", () => leafOf(caller, signal), undefined);
  const id = controllerIdOf(leaf);
  const [inspected, version, health, controllers, routers, edgeRouters, links, authorities, cas] = await Promise.all([
    part("inspections", () => inspectController(id, INSPECTIONS, caller), {}),
    part("version", () => versionOf(caller), undefined),
    part("health", () => healthOf(caller), undefined),
    entities("controllers", "controller"),
    part("routers", () => listEntities({ ...kindNamed("router"), path: "/fabric/v1/routers" }, {}, caller), []),
    entities("edge routers", "edge-router"),
    entities("links", "link"),
    part("authorities", () => authoritiesOf(caller, leaf, signal), []),
    entities("CAs", "ca"),
  ]);
  const [services, circuits, apiSessions, sessions, unhosted, disabled, dials] = await Promise.all([
    count("services", `${MANAGEMENT_API}/services`),
    count("circuits", "/fabric/v1/circuits"),
    count("API sessions", `${MANAGEMENT_API}/api-sessions`),
    count("sessions", `${MANAGEMENT_API}/sessions`),
    part("services without hosts", () => unhostedServices(caller), { services: [], total: undefined }),
    entities("disabled identities", "identity", DISABLED),
    part("failed dials", () => failedDials(inspected, now, caller), []),
  ]);
  reading.checkSession(PUBLIC_PARTS);
  const isAllDisabled = disabled.length < MAX_LISTED;
  const disabledIdentities = isAllDisabled
    ? disabled.length
    : await count("identities", MANAGEMENT_IDENTITIES, DISABLED);

  const observed: Observed = {
    network: name,
    controllers: controllersOf({ controllers, version, health, inspected, id, url: caller.controller }),
    routers: routersOf({ routers, edgeRouters, links, inspected }),
    links: linksOf(links),
    counts: present({
      ...{ identities, services, circuits, apiSessions, sessions },
      ...{ unhostedServices: unhosted.total, disabledIdentities },
    }),
    certificates: certificatesOf({ leaf, authorities, cas, edgeRouters }, now),
    unhostedServices: unhosted.services,
    disabledIdentities: disabled.map(disabledOf),
    failedDials: dials,
    unread: reading.unread,
  };
  return { ...observed, problems: problemsOf(observed, now) };
}
