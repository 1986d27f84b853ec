import { request } from "node:https";

/** What our router has counted since it started, summed over labels, by the names it has at `/metrics`. */
export type RouterCounters = ReadonlyMap<string, number>;

const LINE = /^sallyport_router_(\w+?)(?:_total)?(?:\{[^}]*\})? ([\d.e+]+)$/;

/** Asks the router whose API `metrics` is at this port of the machine. */
export async function routerCounters(port: number): Promise<RouterCounters> {
  const text = await new Promise<string>((resolve, reject) => {
    const asked = request({ port, host: "127.0.0.1", path: "/metrics", rejectUnauthorized: false }, (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        body += part;
      });
      answer.on("end", () => resolve(body)).on("error", reject);
    });
    asked.on("error", reject).end();
  });
  const counters = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, name, value] = LINE.exec(line) ?? [];
    if (name !== undefined) counters.set(name, (counters.get(name) ?? 0) + Number(value));
  }
  return counters;
}

/** The file of a router with its metrics at this port. */
export function withMetrics(text: string, port: number): string {
  return `${text}
web:
  - name: counters
    bindPoints: [{ interface: "127.0.0.1:${port}", address: "localhost:${port}" }]
    apis: [{ binding: metrics }]
`;
}
