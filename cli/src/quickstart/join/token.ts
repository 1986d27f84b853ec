/** Tokens that let a machine join a network. */
import type { CommandContext } from "../../context.ts";
import { CommandError } from "../../errors.ts";
import { givenText } from "../../terminal/given-text.ts";

export interface JoinToken {
  readonly text: string;
  /** What becomes of its holder. */
  readonly kind: "identity" | "router";
  /** `https://host:port` */
  readonly network: string;
  /** Id of the identity or router. */
  readonly subject: string;
  readonly until: Date;
  /** Where routers connect to, `tls:host:port`. */
  readonly controllers: readonly string[];
}

const KINDS: Readonly<Record<string, JoinToken["kind"]>> = { ott: "identity", erott: "router" };
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * The token that the user gives as text, as a file, or on the standard input (`-`). Its signature is checked when it is redeemed.
 *
 * @throws CommandError for anything else
 */
export async function givenToken(given: string, context: CommandContext): Promise<JoinToken> {
  const isText = TOKEN.test(given.trim());
  const text = isText ? given.trim() : (await givenText(given, context)).trim();
  const what = isText ? "the text after --join" : given === "-" ? "the standard input" : given;
  const claims = TOKEN.test(text) ? claimsOf(text) : undefined;
  if (claims === undefined) {
    throw new CommandError(
      `${what} is no enrollment token: expected a token or the name of its file; a token has three parts with a dot between them`,
    );
  }
  const { iss, sub, exp, em, ctrls } = claims;
  const url = typeof iss === "string" ? URL.parse(iss) : null;
  if (url?.protocol !== "https:" || typeof sub !== "string" || typeof exp !== "number")
    throw new CommandError(`${what} is no enrollment token: expected a network's address, an id and an end in it`);
  const kind = typeof em === "string" ? KINDS[em] : undefined;
  if (kind === undefined) {
    throw new CommandError(
      `${what} enrolls by '${String(em)}': expected a one-time token of an identity (ott) or of an edge router (erott)`,
    );
  }
  const until = new Date(exp * 1_000);
  const controllers = Array.isArray(ctrls) ? ctrls.filter((each) => typeof each === "string") : [];
  return { text, kind, network: url.origin, subject: sub, until, controllers };
}

/** @throws CommandError for a token that has ended */
export function checkNotOver({ until }: JoinToken, now = new Date()): void {
  if (until > now) return;
  throw new CommandError(
    `the token ended at ${isoOf(until)}, and the clock of this machine shows ${now.toISOString()}: ask for a new one, or correct the clock`,
  );
}

function claimsOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const claims: unknown = JSON.parse(Buffer.from(text.split(".")[1] ?? "", "base64url").toString("utf8"));
    return typeof claims === "object" && claims !== null ? (claims as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A time that a token claims may be none. */
export function isoOf(time: Date): string {
  return Number.isNaN(time.getTime()) ? "an unknown time" : time.toISOString();
}
