/** What is to be dialled. */
import type { Service } from "@sallyport/sdk";
import type { Entity } from "../entities/entity.ts";
import { quoted } from "../entities/filter-text.ts";
import { listEntities } from "../entities/list.ts";
import { CommandError, ExitStatus, wordHint } from "../errors.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";

export interface Target {
  readonly service: string;
  /** Instance of the host. */
  readonly instance?: string;
}

/**
 * The service with this name, or one that the identity with this name hosts.
 *
 * @param caller of an administrator, who may see hosts; undefined without a session
 * @throws CommandError `NotFound`
 */
export async function targetOf(
  called: string,
  services: readonly Service[],
  caller: ApiCaller | undefined,
): Promise<Target> {
  const dialled = services.filter(({ permissions }) => permissions.includes("Dial"));
  if (dialled.some(({ name }) => name === called)) return { service: called };
  const hint = wordHint(
    called,
    dialled.map(({ name }) => name),
    services.length === 0 ? "the identity may use no service" : "'sallyport why IDENTITY SERVICE' says why not",
  );
  if (caller === undefined) {
    throw new CommandError(`the identity may dial no service '${called}': ${hint}`, ExitStatus.NotFound);
  }
  const [identity] = await listEntities(kindNamed("identity"), { filter: `name = ${quoted(called)}` }, caller);
  const isHosted = identity === undefined ? "" : ` or hostId = ${quoted(String(identity.id))}`;
  const filter = `instanceId = ${quoted(called)}${isHosted}`;
  const kind = { ...kindNamed("terminator"), path: "/fabric/v1/terminators" };
  const terminators = await listEntities(kind, { filter }, caller);
  const found = terminators
    .map(terminatorOf)
    .filter(({ service }) => dialled.some(({ name }) => name === service))
    .toSorted((a, b) => Number(b.instance === called) - Number(a.instance === called))[0];
  if (found === undefined) {
    const what =
      identity === undefined
        ? `there is neither a service that the identity may dial nor an identity named '${called}': ${hint}; --identity FILE dials as another one`
        : `${called} hosts no service that the identity may dial: 'sallyport get terminators' lists the hosts`;
    throw new CommandError(what, ExitStatus.NotFound);
  }
  if (found.instance !== "") return found;
  const others = { filter: `service.name = ${quoted(found.service)} and hostId != ${quoted(String(identity?.id))}` };
  if ((await listEntities(kind, { ...others, limit: 1 }, caller)).length === 0) return { service: found.service };
  throw new CommandError(
    `${called} hosts ${found.service} beside others, and not under a name of its own: 'sallyport ping ${found.service}' takes any of them`,
  );
}

function terminatorOf({ service, instanceId }: Entity): { readonly service: string; readonly instance: string } {
  const name = typeof service === "object" && service !== null ? (service as Entity).name : undefined;
  return { service: String(name ?? ""), instance: typeof instanceId === "string" ? instanceId : "" };
}
