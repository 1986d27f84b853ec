import { errorText, pause } from "@sallyport/async";
import { shellWord } from "@sallyport/program/shell-word";
import type { EdgeConnection } from "@sallyport/sdk";
import { Option } from "commander";
import type { CommandContext } from "../context.ts";
import { CommandError, ExitStatus, UsageError } from "../errors.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { type OpenNetwork, withNetwork } from "../network/open-network.ts";
import { documentText } from "../output/format.ts";
import { type CircuitPath, circuitPath } from "../ping/circuit-path.ts";
import { dialerOf } from "../ping/dialer.ts";
import { measureRound, type Round, statisticsOf } from "../ping/measurement.ts";
import { hopNames, type PingResult, resultText, roundLine } from "../ping/ping-text.ts";
import { isSameNetwork, type NetworkAt } from "../ping/same-network.ts";
import { type Target, targetOf } from "../ping/target.ts";
import { bold, hasColours, widthOf } from "../terminal/screen.ts";
import type { Configure } from "./configure.ts";
import {
  type NetworkOption,
  numberUpTo,
  type OutputOption,
  once,
  withNetworkOption,
  withOutputOption,
} from "./shared-options.ts";

interface PingOptions extends NetworkOption, OutputOption {
  readonly count: number;
  readonly interval: number;
  readonly timeout: number;
  readonly identity?: string;
  readonly instance?: string;
}

/** All measurements are kept for the result. */
const MAX_COUNT = 100_000;
const MAX_MS = 3_600_000;

const HELP = `
Dials the service once, as the identity that is logged in or the one of --identity, and then asks every hop of the circuit, from the first router to the host, to
answer: each time is measured there and back, and no data reaches the host's application. The name of an identity stands for a service that it hosts.

With an administrator's session it also names the routers of the path, and shows what they last measured of the links between them. OpenZiti's routers before 1.6 and
some hosts do not answer such questions; the result says which times are missing.

The exit status is 0 if the host answered at least once, and 1 if it did not. An interrupted run shows what was measured until then.

Examples:
  sallyport ping web --identity laptop.json
  sallyport ping backend -c 20 --interval 200
  sallyport ping web -o jsonpath=$.hops[-1].avgMs
`;

export const configurePing: Configure = (command, context) => {
  command
    .description("Measures a circuit to a service hop by hop.")
    .argument("<target>", "name of a service, or of an identity that hosts one")
    .addOption(new Option("-c, --count <number>", "measure so often").argParser(numberUpTo(MAX_COUNT)).default(5))
    .addOption(
      new Option("--interval <ms>", "pause between two measurements").argParser(numberUpTo(MAX_MS)).default(1_000),
    )
    .addOption(new Option("--timeout <ms>", "wait so long for each hop").argParser(numberUpTo(MAX_MS)).default(2_000))
    .option("--identity <file>", "dial as the identity of this file", once("identity"))
    .option("--instance <name>", "dial the host with this instance name", once("instance"));
  withOutputOption(withNetworkOption(command), "table")
    .addHelpText("after", HELP)
    .action(async (called: string, options: PingOptions) => {
      if (options.output.kind === "name")
        throw new UsageError("-o name shows names of entities: expected table, wide, json, yaml or jsonpath=QUERY");
      const result = await pinged(called, options, context);
      const { output } = options;
      const { stdout, env } = context;
      if (output.kind === "table") {
        const heading = (line: string) => bold(line, hasColours(stdout, env));
        stdout.write(await resultText(result, { width: output.isWide ? undefined : widthOf(stdout), heading }));
      } else stdout.write(await documentText(result, output, stdout.isTTY === true));
      // Commands end with 1 by an error; this answer is none.
      if (result.answered === 0) throw new CommandError("the host did not answer");
    });
};

async function pinged(called: string, options: PingOptions, context: CommandContext): Promise<PingResult> {
  const { network, identity } = options;
  const dialer = await dialerOf(identity, network, context).catch(loginError);
  try {
    // Without a session of an administrator there are no names, and everything else is there.
    return await withView(network, dialer, context, async (caller, whyNot) => {
      const services = await dialer.context.services({ signal: context.signal });
      const target: Target =
        options.instance === undefined
          ? await targetOf(called, services, caller)
          : { service: called, instance: options.instance };
      const started = performance.now();
      const { service, instance } = target;
      const dialOptions = { signal: context.signal, ...(instance !== undefined && { instance }) };
      const connection = await dialer.context.dial(service, dialOptions).catch((error: unknown) => {
        context.signal.throwIfAborted();
        const hint = `'sallyport why ${identity === undefined ? `IDENTITY ${shellWord(service)}` : `${shellWord(service)} --identity ${shellWord(identity)}`}' says more`;
        throw new CommandError(`cannot dial ${service}: ${errorText(error)}; ${hint}`, undefined, { cause: error });
      });
      try {
        return await measured(target, connection, performance.now() - started, { caller, whyNot, options, context });
      } finally {
        connection.destroy();
      }
    });
  } finally {
    await dialer.context.close();
  }
}

interface Measuring {
  readonly caller: ApiCaller | undefined;
  readonly whyNot: string | undefined;
  readonly options: PingOptions;
  readonly context: CommandContext;
}

async function measured(
  { service, instance }: Target,
  connection: EdgeConnection,
  dialMs: number,
  { caller, whyNot, options, context }: Measuring,
): Promise<PingResult> {
  const { stdout } = context;
  const over = new AbortController();
  connection.on("error", (error) => over.abort(error)).resume();
  connection.once("close", () => over.abort(new Error("the host or the network closed it")));
  const signal = AbortSignal.any([context.signal, over.signal]);
  const notes = whyNot === undefined ? [] : [`names of routers and links are not known: ${whyNot}`];
  const path: CircuitPath | undefined =
    caller === undefined
      ? undefined
      : await circuitPath(connection.circuitId, caller).catch((error: unknown) => {
          context.signal.throwIfAborted();
          notes.push(`the path of the circuit is not known: ${errorText(error)}`);
          return undefined;
        });
  const routerIds = path?.routers.map(({ id }) => id) ?? [];
  const rounds: Round[] = [];
  const names = hopNames(path);
  try {
    for (let sequence = 1; sequence <= options.count && !signal.aborted; sequence++) {
      if (sequence > 1) await pause(options.interval, signal);
      if (signal.aborted) break;
      const trace = connection.traceRoute.bind(connection);
      const round = await measureRound(trace, { timeoutMs: options.timeout, signal, before: rounds.at(-1) });
      rounds.push(round);
      if (options.output.kind !== "table") continue;
      const numbered = statisticsOf([round], routerIds);
      stdout.write(
        roundLine(service, sequence, round, (hop) => names(numbered[round.hops.indexOf(hop)] ?? { hop: 0, type: "" })),
      );
    }
  } catch (error) {
    if (!signal.aborted) notes.push(`the circuit ended: ${errorText(error)}`);
  }
  if (over.signal.aborted) notes.push(`the circuit ended: ${errorText(over.signal.reason)}`);
  if (rounds.length > 0 && !rounds.some(({ isComplete }) => isComplete))
    notes.push("the host does not answer: its program, or a router on the way, knows no trace routes, or it is gone");
  return {
    ...{ service, circuitId: connection.circuitId, dialMs, notes },
    ...(instance !== undefined && { instance }),
    sent: rounds.length,
    answered: rounds.filter(({ isComplete }) => isComplete).length,
    hops: statisticsOf(rounds, routerIds),
    ...(path !== undefined && { path }),
  };
}

/** Does work with the session of the network's administrator where there is one of this controller, else without. */
async function withView<T>(
  network: string | undefined,
  dialled: NetworkAt,
  context: CommandContext,
  work: (caller: ApiCaller | undefined, whyNot: string | undefined) => Promise<T>,
): Promise<T> {
  const state: { isBegun: boolean } = { isBegun: false };
  const begin = async (open: OpenNetwork): Promise<T> => {
    const isSame = isSameNetwork(open.saved, dialled);
    if (isSame) await open.caller.json({ method: "GET", path: "/fabric/v1/circuits", query: { limit: 1 } });
    state.isBegun = true;
    return isSame
      ? await work(open.caller, undefined)
      : await work(
          undefined,
          `you are logged in at ${open.saved.controller}, and the identity is of ${dialled.controller}`,
        );
  };
  try {
    return await withNetwork(network, context, begin);
  } catch (error) {
    if (state.isBegun || context.signal.aborted) throw error;
    return await work(undefined, errorText(error));
  }
}

function loginError(error: unknown): never {
  if ((error as Error).name !== "AuthenticationError") throw error;
  throw new CommandError(errorText(error), ExitStatus.LoggedOut, { cause: error });
}
