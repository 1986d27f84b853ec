/**
 * A host that intercepts, without a network behind it: what a client sends to an intercepted service it gets back, after a first
 * line of JSON that tells the ends as the interceptor saw them. TCP clients that send an HTTP request get an HTTP answer of it.
 *
 * `interceptor-program.ts SOCKET OPTIONS`: commands come in as HTTP over the Unix socket; prints `ready`.
 */
import { createServer } from "node:http";
import { type Interception, type InterceptTarget, SourceRoutes, TproxyInterceptor } from "@sallyport/tunnel";
import type { Logger } from "@sallyport/wire";

const [path = "", options = "{}"] = process.argv.slice(2);
const say =
  (level: string) =>
  (fields: object, text: string): void =>
    console.log(
      JSON.stringify({ level, text, ...fields }, (_key, value) => (value instanceof Error ? value.message : value)),
    );
const log: Logger = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };

const { protect = [], ...rest } = JSON.parse(options) as { protect?: string[] };
const interceptor = await TproxyInterceptor.open({ ...rest, protectedAddresses: () => protect, log }).catch(
  (error: Error) => {
    console.log(error.message);
    process.exit(1);
  },
);
const sources = new SourceRoutes(log);
const interceptions = new Map<string, Interception>();

const commands: Record<string, (body: unknown) => Promise<unknown>> = {
  intercept: async (body) => {
    const target = body as InterceptTarget;
    const interception = await interceptor.intercept(target, {
      tcp({ addresses, socket }) {
        const first = `${JSON.stringify({ service: target.name, ...addresses })}\n`;
        socket.once("data", (chunk) => {
          const isHttp = /^GET .* HTTP/.test(chunk.toString("latin1"));
          socket.write(isHttp ? `HTTP/1.1 200 OK\r\nContent-Length: ${first.length}\r\nConnection: close\r\n\r\n` : "");
          socket.write(first);
          if (isHttp) {
            socket.end();
            return;
          }
          socket.write(chunk);
          socket.pipe(socket);
        });
        socket.on("error", () => {});
        socket.resume();
      },
      udp(flow) {
        const { addresses } = flow;
        const head = Buffer.from(`${JSON.stringify({ service: target.name, ...addresses })}\n`);
        flow.onMessage((datagram) => {
          const answer = datagram.length < 1000 ? Buffer.concat([head, datagram]) : datagram;
          flow.send(answer, 0, answer.length);
        });
        flow.onClose(() => log.info({ ...addresses }, "flow closed"));
      },
    });
    interceptions.set(target.id, interception);
    return { kind: interceptor.kind };
  },
  forget: async (body) => {
    const { id } = body as { id: string };
    await interceptions.get(id)?.close();
    return {};
  },
  source: async (body) => {
    await sources.add((body as { prefix: string }).prefix);
    return {};
  },
};

const server = createServer((request, response) => {
  const run = async (): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    try {
      const answer = await commands[request.url?.slice(1) ?? ""]?.(JSON.parse(Buffer.concat(chunks).toString()));
      response.end(JSON.stringify(answer));
    } catch (error) {
      response.statusCode = 400;
      response.end(JSON.stringify({ code: (error as { code?: string }).code, message: (error as Error).message }));
    }
  };
  void run();
});
server.listen(path, () => console.log("ready"));

process.once("SIGTERM", () => {
  void Promise.all([interceptor.close(), sources.close()]).then(() => process.exit(0));
});
