import { EdgeCtrlType, edgeCtrlPb, encodeControl, identityFromPem } from "@sallyport/wire";
import { ScriptedRouter } from "../../../controller/src/fabric/testing/scripted-router.ts";
import { ChangeSetReader } from "../../../router/src/control/data-model/event-reader.ts";
import { quantile } from "../../api/http-client.ts";
import { emit } from "../../dataplane/figure.ts";
import { ControllerSet, type Member } from "../controller-set.ts";
import { enrollRouters } from "../enrolled-routers.ts";
import { paced } from "../paced.ts";
import { get, idOf, patch, post, remove } from "../requests.ts";
import type { Row } from "../row.ts";

const CONTROLLERS = 3;
const PER_SECOND = 200;
const FOR_MS = 20_000;
const IDENTITIES = 200;
/** Of the changes of an identity, every so manieth is looked for at the other controller. */
const LOOKED_FOR = 2;
/** Connections that are open before it begins. */
const CONNECTIONS = 32;
const PATIENCE_MS = 30_000;
/** So many other services are removed before a new one: a router is never told of one that ends within the same set of changes. */
const BACKLOG = 200;

/** Milliseconds from sending a change to one controller. */
interface Times {
  readonly answered: number[];
  /** Until a read at the other controller shows it. */
  readonly read: number[];
  /** Until a router that is connected to the other controller alone has it. */
  readonly routed: number[];
  /** Reads that began after the answer, and did not show the change. */
  late: number;
}

/** 200 changes a second at one controller, as another one and a router of that one see them. A third one leads. */
export const changes: Row = async (folder) => {
  const set = await ControllerSet.start(folder, CONTROLLERS);
  try {
    const [, at, seenBy] = set.members as [Member, Member, Member];
    const services = await ServicesOfRouter.follow(set, seenBy);
    try {
      const identities = await makeIdentities(at);
      for (const { client } of [at, seenBy]) await client.load(CONNECTIONS * 4, CONNECTIONS, () => get("/version"));
      const warm = newTimes();
      await change({ at, seenBy, services, identities, times: warm }, FOR_MS / 10);
      const times = newTimes();
      const [began, controllers, database] = [performance.now(), set.cpuSeconds(), await set.databaseCpuSeconds()];
      await change({ at, seenBy, services, identities, times }, FOR_MS);
      const count = times.answered.length;
      const ms = (now: number, then = 0): number => Math.round(((now - then) / count) * 100_000) / 100;
      report(times, {
        changesPerSecond: Math.round(count / ((performance.now() - began) / 1_000)),
        cpuMsOfOne: set.cpuSeconds().map((now, index) => ms(now, controllers[index])),
        databaseMsOfOne: ms(await set.databaseCpuSeconds(), database),
      });
    } finally {
      services.close();
    }
  } finally {
    await set.stop();
  }
};

const newTimes = (): Times => ({ answered: [], read: [], routed: [], late: 0 });

interface Scene {
  readonly at: Member;
  readonly seenBy: Member;
  readonly services: ServicesOfRouter;
  readonly identities: readonly string[];
  readonly times: Times;
}

/** In turn: an attribute of an identity, a new service, another attribute, the end of the service. */
async function change(scene: Scene, forMs: number): Promise<void> {
  const { at, services, times } = scene;
  const made: Promise<string>[] = [];
  await at.client.load(
    BACKLOG,
    8,
    (index) => post("/services", { name: `early-${forMs}-${index}`, encryptionRequired: true }),
    (answer) => made.push(Promise.resolve(idOf(answer))),
  );
  await paced(PER_SECOND, forMs, async (index) => {
    if (index % 2 === 0) return changeAttribute(scene, index / 2);
    const sent = performance.now();
    if (index % 4 === 1) {
      const name = `bench-${sent}-${index}`;
      const seen = services.next(name).then((when) => times.routed.push(when - sent));
      seen.catch(() => undefined);
      const answer = at.client.ask(post("/services", { name, encryptionRequired: true }));
      const id = answer.then(idOf);
      id.catch(() => undefined);
      made.push(id);
      await answer;
      times.answered.push(performance.now() - sent);
      await seen;
    } else {
      const id = await made.shift();
      if (id === undefined) return;
      const began = performance.now();
      await at.client.ask(remove(`/services/${id}`));
      times.answered.push(performance.now() - began);
    }
  });
  await Promise.all(made.map(async (id) => at.client.ask(remove(`/services/${await id}`))));
}

async function changeAttribute({ at, seenBy, identities, times }: Scene, index: number): Promise<void> {
  const path = `/identities/${identities[index % identities.length]}`;
  const attribute = `change-${index}`;
  const sent = performance.now();
  let answeredAt = Number.POSITIVE_INFINITY;
  const answer = at.client.ask(patch(path, { roleAttributes: [attribute] })).then(() => {
    answeredAt = performance.now();
    times.answered.push(answeredAt - sent);
  });
  // A refusal ends the call at its end, and not the process while the other controller is asked.
  answer.catch(() => undefined);
  while (index % LOOKED_FOR === 0) {
    const asked = performance.now();
    const { roleAttributes } = await seenBy.client.data<{ roleAttributes: string[] | null }>(get(path));
    if (roleAttributes?.includes(attribute)) {
      times.read.push(performance.now() - sent);
      break;
    }
    if (asked > answeredAt) times.late += 1;
    if (asked - sent > PATIENCE_MS) throw new Error(`${attribute} is not at ${seenBy.id}`);
  }
  await answer;
}

/** A router that is connected to one controller alone and follows the data model. */
class ServicesOfRouter {
  readonly #router: ScriptedRouter;
  readonly #awaited = new Map<string, (when: number) => void>();

  private constructor(router: ScriptedRouter) {
    this.#router = router;
  }

  static async follow(set: ControllerSet, { ctrlPort }: Member): Promise<ServicesOfRouter> {
    const [enrolled] = await enrollRouters(set, 1);
    if (enrolled === undefined) throw new Error("no router was enrolled");
    const router = await ScriptedRouter.connect({ port: ctrlPort, identity: identityFromPem(enrolled) });
    await router.hello();
    const request = { subscriptionDurationSeconds: 300, subscriptionId: "bench" };
    const body = encodeControl(edgeCtrlPb.SubscribeToDataModelRequestSchema, request);
    router.send(EdgeCtrlType.SubscribeToDataModel, body);
    await router.next(EdgeCtrlType.DataState);
    const services = new ServicesOfRouter(router);
    router.channel.handle(EdgeCtrlType.DataStateChangeSet, ({ body: set }) => services.#take(set));
    return services;
  }

  /** Resolves with the time at which the router has the service. */
  next(name: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the service ${name} has not reached the router`)), PATIENCE_MS);
      this.#awaited.set(name, (when) => {
        clearTimeout(timer);
        resolve(when);
      });
    });
  }

  close(): void {
    this.#router.close();
  }

  #take(body: Uint8Array): void {
    const now = performance.now();
    for (const event of new ChangeSetReader(body).events()) {
      if (event.kind !== "entity" || event.model.case !== "service") continue;
      const { name } = event.model.value;
      this.#awaited.get(name)?.(now);
      this.#awaited.delete(name);
    }
  }
}

async function makeIdentities({ client }: Member): Promise<string[]> {
  const ids: string[] = [];
  await client.load(
    IDENTITIES,
    8,
    (index) => post("/identities", { name: `identity-${index}`, type: "Device", isAdmin: false }),
    (answer) => ids.push(idOf(answer)),
  );
  return ids;
}

function report({ answered, read, routed, late }: Times, details: Readonly<Record<string, unknown>>): void {
  const tell = (of: string, values: readonly number[]): void => {
    const sorted = values.toSorted((a, b) => a - b);
    emit({
      figure: "a change at one controller, p99 from sending it",
      of,
      value: quantile(sorted, 0.99),
      unit: "ms",
      target: { atMost: 100 },
      details: {
        p50: Math.round(quantile(sorted, 0.5)),
        max: Math.round(sorted.at(-1) ?? Number.NaN),
        of: values.length,
      },
    });
  };
  tell("until a read at another controller shows it", read);
  tell("until a router of another controller has it", routed);
  tell("until it is answered", answered);
  emit({
    figure: "reads at another controller after the answer that lack the change",
    value: late,
    unit: "reads",
    target: { atMost: 0 },
    details,
  });
}
