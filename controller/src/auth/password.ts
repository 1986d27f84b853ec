/** Passwords at rest: argon2id, hashed and checked off the event loop (docs/protocol/authentication.md). */
import { hash, verify } from "@node-rs/argon2";
import { WorkLimit } from "../model/work-limit.ts";

/** The library's number of the algorithm. */
const ARGON2ID = 2;

/** 19 MiB, two passes, one lane: about 20 ms of one core, as today's guidance for interactive logins has it. */
const OPTIONS = { algorithm: ARGON2ID, memoryCost: 19_456, timeCost: 2, parallelism: 1, outputLen: 32 };

/** How a hash made with these parameters begins. */
const CURRENT_PREFIX = `$argon2id$v=19$m=${OPTIONS.memoryCost},t=${OPTIONS.timeCost},p=${OPTIONS.parallelism}$`;

/** Each hash or check takes memory and one of the four threads of this process. */
const WORK = new WorkLimit({ atATime: 4, inLine: 60, retryAfterSeconds: 1 });

/** The hash in PHC text form, salt and parameters included. @throws ApiError 429 when too many are under way */
export async function hashPassword(password: string): Promise<string> {
  return WORK.run(() => hash(password, OPTIONS));
}

/** Was it made with other parameters than the current ones? */
export function isOutdated(passwordHash: string): boolean {
  return !passwordHash.startsWith(CURRENT_PREFIX);
}

let decoy: Promise<string> | undefined;

/**
 * Does the password belong to the hash? Without a hash (no such user) the answer is no after the same work: the time does not reveal which users exist.
 * @throws ApiError 429 when too many are under way
 */
export async function checkPassword(passwordHash: string | undefined, password: string): Promise<boolean> {
  decoy ??= hash("a user that does not exist", OPTIONS);
  const compared = passwordHash ?? (await decoy);
  const matches = await WORK.run(() => verify(compared, password));
  return matches && passwordHash !== undefined;
}

/** A password as given, and the stored hash that it matched. */
export interface ProvedPassword {
  readonly hash: string;
  /** Does it belong to this hash? */
  readonly matches: (hash: string) => Promise<boolean>;
}

/** Is the proved password the one that is stored now? Its hash may differ, since outdated hashes are renewed. */
export async function isStillRight(proved: ProvedPassword, storedHash: string | null): Promise<boolean> {
  return storedHash !== null && (storedHash === proved.hash || (await proved.matches(storedHash)));
}

export interface PasswordRules {
  readonly minLength: number;
  readonly requireMixedCase: boolean;
  readonly requireNumber: boolean;
  readonly requireSpecial: boolean;
}

/** Why a policy refuses a password, or undefined. Lengths count code points. */
export function passwordProblem(password: string, rules: PasswordRules): string | undefined {
  const minLength = Math.max(5, rules.minLength);
  if ([...password].length < minLength) return `password must have at least ${minLength} characters`;
  if (rules.requireMixedCase && !(/\p{Ll}/u.test(password) && /\p{Lu}/u.test(password))) {
    return "password must have upper and lower case letters";
  }
  if (rules.requireNumber && !/\p{Nd}/u.test(password)) return "password must have a digit";
  if (rules.requireSpecial && !/[^\p{L}\p{N}]/u.test(password)) return "password must have a special character";
  return undefined;
}
