import { Socket } from "node:net";
import type { Duplex } from "node:stream";

interface UserBufferKeys {
  readonly buffer: symbol;
  readonly callback: symbol;
}

/**
 * Accepted sockets have no public way to name a read buffer, as dialled ones have (`onread`); they have the same
 * machinery inside. It is used when all its parts are there, else such sockets are read by 'data' events, which costs
 * about a third more time per byte and changes nothing else.
 */
function findUserBufferKeys(): UserBufferKeys | undefined {
  const symbols = Object.getOwnPropertySymbols(new Socket());
  const buffer = symbols.find((symbol) => symbol.description === "kBuffer");
  const callback = symbols.find((symbol) => symbol.description === "kBufferCb");
  return buffer && callback ? { buffer, callback } : undefined;
}

const userBufferKeys = findUserBufferKeys();

/**
 * Has a connected socket read into `buffer` from now on; `callback` gets the number of bytes, and stops reading by
 * answering false (`socket.resume()` goes on).
 *
 * @returns what the socket had read before, or undefined when this is not possible: use 'data' events
 */
export function installUserBuffer(
  socket: Duplex,
  buffer: Buffer,
  callback: (length: number) => boolean,
): Buffer[] | undefined {
  const handle: unknown = Reflect.get(socket, "_handle");
  if (userBufferKeys === undefined || typeof handle !== "object" || handle === null) return undefined;
  const useUserBuffer: unknown = Reflect.get(handle, "useUserBuffer");
  if (typeof useUserBuffer !== "function") return undefined;
  Reflect.set(socket, userBufferKeys.buffer, buffer);
  Reflect.set(socket, userBufferKeys.callback, callback);
  Reflect.apply(useUserBuffer, handle, [buffer]);
  const early: Buffer[] = [];
  for (let bytes: unknown = socket.read(); Buffer.isBuffer(bytes); bytes = socket.read()) early.push(bytes);
  return early;
}
