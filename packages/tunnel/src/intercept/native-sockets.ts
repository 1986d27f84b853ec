import type { Server } from "node:net";
import { InterceptError } from "../interceptor.ts";
import { formatIp, type IpFamily, parseIp } from "../ip-range.ts";

/** The few calls of the C library that Node does not offer. Numbers are those of Linux on every 64-bit machine. */
export interface NativeSockets {
  /** Lets a listener accept connections to addresses other than its own. */
  makeTransparent(server: Server, family: IpFamily): void;
  /** A UDP socket on the loopback address that receives datagrams to other addresses, and learns which. */
  openUdp(family: IpFamily, onDatagram: (datagram: Datagram) => void): NativeUdp;
  /** Descriptor of a UDP socket bound to an address that need not be one of this host's, and may be that of further sockets. */
  bindUdp(ip: string, port: number): number;
}

export interface NativeUdp {
  readonly port: number;
  close(): void;
}

/** Valid during the call only. */
export interface Datagram {
  readonly sourceIp: string;
  readonly sourcePort: number;
  readonly destinationIp: string;
  readonly destinationPort: number;
  readonly buffer: Buffer;
}

const SOL_IP = 0;
const SOL_IPV6 = 41;
const TRANSPARENT = { 4: 19, 6: 75 } as const;
const RECEIVE_DESTINATION = { 4: 20, 6: 74 } as const;
const AF = { 4: 2, 6: 10 } as const;
const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const MSG_TRUNC = 0x20;
const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;
const EPERM = 1;
const EACCES = 13;
const EADDRINUSE = 98;
const MAX_DATAGRAM = 65_535;
/** Datagrams read before the event loop turns. */
const MAX_PER_TURN = 64;
const ADDRESS_SIZE = 28;
const CONTROL_SIZE = 256;
/** `struct msghdr` of 64-bit Linux. */
const MESSAGE = {
  size: 56,
  name: 0,
  nameLength: 8,
  parts: 16,
  partCount: 24,
  control: 32,
  controlLength: 40,
  flags: 48,
};

/**
 * Loads koffi, an optional dependency, when it is first needed.
 * @throws InterceptError `NO_KOFFI` where it is not installed or has nothing for this machine
 */
export async function loadNativeSockets(): Promise<NativeSockets> {
  let koffi: typeof import("koffi");
  try {
    koffi = await import("koffi");
  } catch (cause) {
    throw new InterceptError("NO_KOFFI", "the package koffi is not installed: npm install koffi", { cause });
  }
  // The process itself: the C library that Node runs on, whichever that is.
  const library = koffi.load(null);
  const call = <Args extends unknown[]>(prototype: string) => library.func(prototype) as (...args: Args) => number;
  const socket = call<[family: number, type: number, protocol: number]>("int socket(int, int, int)");
  const setOption = call<[fd: number, level: number, option: number, value: Buffer, length: number]>(
    "int setsockopt(int, int, int, const void *, uint32_t)",
  );
  const bind = call<[fd: number, address: Buffer, length: number]>("int bind(int, const void *, uint32_t)");
  const socketName = call<[fd: number, address: Buffer, length: Buffer]>("int getsockname(int, void *, void *)");
  const receive = call<[fd: number, message: Buffer, flags: number]>("int64_t recvmsg(int, void *, int)");
  const closeSocket = call<[fd: number]>("int close(int)");

  const check = (result: number, name: string): number => {
    if (result >= 0) return result;
    const errno = koffi.errno();
    if (errno !== EPERM) throw new InterceptError("SYSTEM_CALL", `${name} failed with errno ${errno}`);
    const advice = "run as root or give the process the capability CAP_NET_ADMIN";
    throw new InterceptError("NOT_PERMITTED", `${name} is not permitted: ${advice}`);
  };
  const switchOn = (fd: number, level: number, option: number, name: string): void => {
    const one = Buffer.alloc(4);
    one.writeInt32LE(1);
    check(setOption(fd, level, option, one, 4), `setsockopt(${name})`);
  };
  const bindTo = (fd: number, family: IpFamily, ip: string, port: number): void => {
    const address = socketAddress(family, ip, port);
    if (bind(fd, address, address.length) === 0) return;
    const errno = koffi.errno();
    const advice =
      errno === EACCES
        ? "ports below 1024 need the capability CAP_NET_BIND_SERVICE (or root)"
        : errno === EADDRINUSE
          ? "another program has that port on all addresses of this host"
          : `errno ${errno}`;
    throw new InterceptError("BIND", `datagrams cannot be sent from ${ip} port ${port}: ${advice}`);
  };
  const openSocket = (family: IpFamily, prepare: (fd: number) => void): number => {
    const fd = check(socket(AF[family], SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
    try {
      switchOn(fd, levelOf(family), TRANSPARENT[family], "IP_TRANSPARENT");
      prepare(fd);
      return fd;
    } catch (error) {
      closeSocket(fd);
      throw error;
    }
  };

  return {
    makeTransparent(server, family) {
      switchOn(descriptorOf(server), levelOf(family), TRANSPARENT[family], "IP_TRANSPARENT");
    },
    bindUdp(ip, port) {
      const family = ip.includes(":") ? 6 : 4;
      return openSocket(family, (fd) => {
        switchOn(fd, SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR");
        bindTo(fd, family, ip, port);
      });
    },
    openUdp(family, onDatagram) {
      let port = 0;
      const fd = openSocket(family, (opened) => {
        switchOn(opened, levelOf(family), RECEIVE_DESTINATION[family], "IP_RECVORIGDSTADDR");
        bindTo(opened, family, family === 4 ? "127.0.0.1" : "::1", 0);
        const address = Buffer.alloc(ADDRESS_SIZE);
        const length = Buffer.alloc(4);
        length.writeUInt32LE(address.length);
        check(socketName(opened, address, length), "getsockname");
        port = address.readUInt16BE(2);
      });
      const reader = new MessageReader((buffer) => koffi.address(buffer));
      let isClosed = false;
      let isDue = false;
      const read = (): void => {
        isDue = false;
        if (isClosed) return;
        for (let count = 0; count < MAX_PER_TURN; count++) {
          reader.prepare();
          // Errors are those of an empty queue, or ICMP's of former datagrams: the next readable event says more.
          const received = receive(fd, reader.message, 0);
          if (received < 0) return;
          const datagram = reader.datagram(received, family);
          if (datagram !== undefined) onDatagram(datagram);
          if (isClosed) return;
        }
      };
      // koffi calls back outside of Node's own callbacks: what is put off to the next tick there would wait for another event.
      const poll = koffi.node.poll(fd, { readable: true }, () => {
        if (!isDue) setImmediate(read);
        isDue = true;
      });
      return {
        port,
        close() {
          isClosed = true;
          poll.close();
          closeSocket(fd);
        },
      };
    },
  };
}

/** The buffers of `recvmsg`, used again for every datagram. They must not be moved or collected, so nothing of a pool. */
class MessageReader {
  readonly message = Buffer.allocUnsafeSlow(MESSAGE.size);
  readonly #name = Buffer.allocUnsafeSlow(ADDRESS_SIZE);
  readonly #part = Buffer.allocUnsafeSlow(16);
  readonly #data = Buffer.allocUnsafeSlow(MAX_DATAGRAM);
  readonly #control = Buffer.allocUnsafeSlow(CONTROL_SIZE);

  constructor(addressOf: (buffer: Buffer) => bigint) {
    const { message } = this;
    message.fill(0);
    message.writeBigUInt64LE(addressOf(this.#name), MESSAGE.name);
    this.#part.writeBigUInt64LE(addressOf(this.#data), 0);
    this.#part.writeBigUInt64LE(BigInt(MAX_DATAGRAM), 8);
    message.writeBigUInt64LE(addressOf(this.#part), MESSAGE.parts);
    message.writeBigUInt64LE(1n, MESSAGE.partCount);
    message.writeBigUInt64LE(addressOf(this.#control), MESSAGE.control);
  }

  prepare(): void {
    this.message.writeUInt32LE(ADDRESS_SIZE, MESSAGE.nameLength);
    this.message.writeBigUInt64LE(BigInt(CONTROL_SIZE), MESSAGE.controlLength);
    this.message.writeUInt32LE(0, MESSAGE.flags);
  }

  /** Undefined for a datagram whose destination the kernel did not tell. */
  datagram(length: number, family: IpFamily): Datagram | undefined {
    if ((this.message.readUInt32LE(MESSAGE.flags) & MSG_TRUNC) !== 0) return undefined;
    const end = Number(this.message.readBigUInt64LE(MESSAGE.controlLength));
    const level = levelOf(family);
    // Control messages: length (8 bytes, of header and data), level, type, data; each begins at a multiple of 8.
    for (let at = 0; at + 16 <= end; ) {
      const size = Number(this.#control.readBigUInt64LE(at));
      if (size < 16) return undefined;
      const isDestination = this.#control.readInt32LE(at + 8) === level;
      if (isDestination && this.#control.readInt32LE(at + 12) === RECEIVE_DESTINATION[family]) {
        const destination = readAddress(this.#control, at + 16, family);
        const source = readAddress(this.#name, 0, family);
        return {
          sourceIp: source.ip,
          sourcePort: source.port,
          destinationIp: destination.ip,
          destinationPort: destination.port,
          buffer: this.#data.subarray(0, length),
        };
      }
      at += (size + 7) & ~7;
    }
    return undefined;
  }
}

/** `struct sockaddr_in` or `sockaddr_in6`: the family in the machine's order (little endian wherever Node runs on Linux with koffi), the rest big endian. */
function socketAddress(family: IpFamily, ip: string, port: number): Buffer {
  const parsed = parseIp(ip);
  if (parsed === undefined) throw new InterceptError("BAD_ADDRESS", `${ip} is no IP address`);
  const address = Buffer.alloc(family === 4 ? 16 : ADDRESS_SIZE);
  address.writeUInt16LE(AF[family], 0);
  address.writeUInt16BE(port, 2);
  if (family === 4) address.writeUInt32BE(Number(parsed.value), 4);
  else address.write(parsed.value.toString(16).padStart(32, "0"), 8, "hex");
  return address;
}

function levelOf(family: IpFamily): number {
  return family === 4 ? SOL_IP : SOL_IPV6;
}

function readAddress(buffer: Buffer, at: number, family: IpFamily): { ip: string; port: number } {
  const port = buffer.readUInt16BE(at + 2);
  if (family === 4) return { ip: formatIp(4, BigInt(buffer.readUInt32BE(at + 4))), port };
  return { ip: formatIp(6, (buffer.readBigUInt64BE(at + 8) << 64n) | buffer.readBigUInt64BE(at + 16)), port };
}

/** Node keeps the descriptor of a listener in a field that is not part of its types. */
function descriptorOf(server: Server): number {
  const fd = (server as Server & { readonly _handle?: { readonly fd?: number } })._handle?.fd;
  if (fd === undefined || fd < 0) {
    throw new InterceptError(
      "NO_DESCRIPTOR",
      `this Node (${process.version}) does not tell the descriptor of a listener; use the version that the package names`,
    );
  }
  return fd;
}
