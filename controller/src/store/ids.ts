import { randomBytes, randomInt } from "node:crypto";

const ENTITY_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-";
const ALPHANUMERIC = 62;
const ENTITY_ID_LENGTH = 12;

/**
 * The id of a new entity: 12 random characters of `A-Z a-z 0-9 . _ -`, the first a letter or a digit, so that an id never
 * looks like a command line option or a hidden file. 71 bits: ids never repeat in practice; the store's unique index decides.
 */
export function randomEntityId(): string {
  let id = ENTITY_ALPHABET.charAt(randomInt(ALPHANUMERIC));
  while (id.length < ENTITY_ID_LENGTH) id += ENTITY_ALPHABET.charAt(randomInt(ENTITY_ALPHABET.length));
  return id;
}

const COUNTER_LIMIT = 36 ** 4;
const RANDOM_DIGITS = 11;
let lastMillisecond = 0;
let counter = 0;

/**
 * An id that sorts as text in the order of making: `c`, nine base-36 digits of the time in milliseconds, four of a counter, eleven random ones (25 characters,
 * lower case). API sessions and sessions have such ids: routers get all sessions in id order, and a session made during that walk must sort behind it. Within a
 * process the order is strict, also when the clock is set back. Across processes it is as good as the clock: take that of the database.
 */
export function timeOrderedId(now: number): string {
  if (now > lastMillisecond) {
    lastMillisecond = now;
    counter = 0;
  } else if (++counter === COUNTER_LIMIT) {
    lastMillisecond += 1;
    counter = 0;
  }
  return `c${base36(lastMillisecond, 9)}${base36(counter, 4)}${randomBase36()}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** API sessions of OIDC logins have UUIDs, all others {@link timeOrderedId}: of one that has ended, nothing else is left to tell. */
export function isIdOfOidcSession(apiSessionId: string): boolean {
  return UUID.test(apiSessionId);
}

function base36(value: number, width: number): string {
  return value.toString(36).padStart(width, "0");
}

function randomBase36(): string {
  const text = BigInt(`0x${randomBytes(8).toString("hex")}`)
    .toString(36)
    .padStart(RANDOM_DIGITS, "0");
  return text.slice(-RANDOM_DIGITS);
}
