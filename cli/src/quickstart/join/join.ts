/** A machine that joins a network, or goes on in one that it has joined. */
import type { CommandContext } from "../../context.ts";
import { CommandError, UsageError } from "../../errors.ts";
import { runInFolder } from "../programs/folder-run.ts";
import { JOINED_FILE, type JoinedState, readJoined, writeJoined } from "./joined-state.ts";
import type { Joining, JoinOptions } from "./joining.ts";
import { checkSamePlace, enrollRouter, routerPlace, runRouter } from "./router-program.ts";
import { checkNotOver, givenToken, isoOf, type JoinToken } from "./token.ts";
import { enrollIdentity, hasIdentity, runTunneler } from "./tunneler-program.ts";
import { whyNotIntercepted } from "./way-in.ts";

/**
 * Redeems the token, unless an earlier run has, and runs a tunneler or a router until a signal stops this program.
 *
 * @throws CommandError
 */
export async function joinNetwork(options: JoinOptions, context: CommandContext): Promise<void> {
  const { folder, token } = options;
  const given = token === undefined ? undefined : await givenToken(token, context);
  const obstacle = options.isIntercepting === true ? whyNotIntercepted(context.env) : undefined;
  if (obstacle !== undefined)
    throw new CommandError(`connections cannot be intercepted here: ${obstacle}; omit --intercept to use ports`);
  const unfinished = "stopped before the machine had joined: run the command again to go on";
  await runInFolder({ folder, mode: 0o700, firstFile: JOINED_FILE, unfinished }, context, async (run) => {
    const joining = { ...run, folder, options };
    const state = await enrolled(given, joining);
    await (state.kind === "router" ? runRouter : runTunneler)(state, joining);
  });
}

/** What has joined; the token is redeemed where nothing has. */
async function enrolled(token: JoinToken | undefined, joining: Joining): Promise<JoinedState> {
  const { folder, say } = joining;
  const before = await readJoined(folder);
  const isSame = token === undefined || (token.subject === before?.subject && token.network === before.network);
  if (before !== undefined && !isSame && (before.isEnrolled || (await hasIdentity(folder)))) {
    throw new CommandError(
      `this machine has joined ${before.network} as ${before.kind} ${before.subject} in ${folder}: join as another one with --dir DIR`,
    );
  }
  if (before?.isEnrolled === true) {
    checkSamePlace(before, joining.options);
    if (token !== undefined) say("this machine has joined already; the token is not used");
    return before;
  }
  if (token === undefined) {
    throw new CommandError(
      `nothing has joined a network in ${folder} yet: give the token, sallyport quickstart --join TOKEN_OR_FILE`,
    );
  }
  checkNotOver(token);
  const { network, kind, subject, until } = token;
  say(`token of the network at ${network} for ${kind} ${subject}, until ${isoOf(until)}`);
  const router = kind === "router" ? await routerPlace(before, joining) : noRouter(joining.options);
  const state = { kind, network, subject, isEnrolled: false, ports: {}, names: [], ...router };
  await writeJoined(folder, state);
  await (kind === "router" ? enrollRouter(token, state, joining) : enrollIdentity(token, joining));
  await writeJoined(folder, { ...state, isEnrolled: true });
  return { ...state, isEnrolled: true };
}

/** @throws UsageError for options of a router */
function noRouter({ host, routerPort }: JoinOptions): Record<never, never> {
  if (host === undefined && routerPort === undefined) return {};
  throw new UsageError("--host and --router-port are for the token of an edge router, and this one is of an identity");
}
