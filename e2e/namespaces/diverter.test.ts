import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { curl, datagram, InterceptionSite } from "./interception.ts";
import { type Host, hasNamespaces } from "./network-namespace.ts";

describe.skipIf(!hasNamespaces)("interception by a diverter", () => {
  let site: InterceptionSite;
  let router: Host;
  let client: Host;

  beforeEach(async () => {
    site = new InterceptionSite();
    await site.build();
    ({ router, client } = site);
  });
  afterEach(async () => await site.close());

  const start = async (options: object) => await site.start(options);

  const target = { name: "web", addresses: ["10.5.0.0/16"], portRanges: [{ low: 80, high: 90 }] };
  let program: string;
  const calls = (): string[] =>
    readFileSync(`${program}.calls`, "utf8")
      .trim()
      .replaceAll(/ -t \d+/g, " -t PORT")
      .split("\n");
  /** It refuses what matches from now on; nothing without a pattern. */
  const refuses = (pattern: string): void => writeFileSync(`${program}.refuses`, pattern);

  beforeEach(() => {
    program = join(site.folder, "diverter");
    copyFileSync(join(import.meta.dirname, "diverter.sh"), program);
  });

  test("is called for each address, source and range of ports, and again to remove them", async () => {
    const interceptor = await start({ diverter: program });
    await interceptor.intercept({ ...target, id: "idOfWeb", allowedSourceAddresses: ["192.0.2.2"] });
    await interceptor.intercept({ ...target, id: "idOfDatagrams", protocols: ["udp"] });
    expect((await router.run("nft", "list", "tables")).stdout.trim()).toBe("table ip diverted");
    expect(await curl(client, "http://10.5.7.9:85/")).toMatchObject({ service: "web", destinationIp: "10.5.7.9" });
    expect(JSON.parse(await datagram(client, "10.5.6.7", 90))).toMatchObject({ sourceIp: "192.0.2.2" });
    expect(await curl(router, "http://10.5.7.9:85/")).toBe(7);
    const web = "-c 10.5.0.0 -m 16 -o 192.0.2.2 -n 32 -p tcp -l 80 -h 90";
    const udp = "-c 10.5.0.0 -m 16 -o 0.0.0.0 -n 0 -p udp -l 80 -h 90";
    const told = ["-V", `-I ${web} -t PORT -s idOfWeb`, `-I ${udp} -t PORT -s idOfDatagrams`];
    expect(calls()).toEqual(told);
    await interceptor.forget("idOfWeb");
    expect(await curl(client, "http://10.5.7.9:85/")).toBe(7);
    expect(await interceptor.program.stop()).toBe(0);
    expect(calls()).toEqual([...told, `-D ${web}`, `-D ${udp}`]);
    expect((await router.run("nft", "list", "ruleset")).stdout).not.toContain("tproxy");
  });

  test("a tunneler whose diverter is missing or fails does not start, and says why", async () => {
    await expect(start({ diverter: join(site.folder, "missing") })).rejects.toThrow(/missing is not on this host/);
    refuses("^-V");
    await expect(start({ diverter: program })).rejects.toThrow(/diverter -V" failed: no room in the table/);
    expect(await router.ip("route", "show", "table", "local")).not.toContain("100.64.0.0/10");
  });

  test("a service that it refuses is refused with its message, leaves nothing, and harms no other", async () => {
    const interceptor = await start({ diverter: program });
    await interceptor.intercept({ ...target, name: "first" });
    refuses("-c 10.7.0.2 ");
    const second = { ...target, name: "second", addresses: ["10.7.0.1", "10.7.0.2"] };
    await expect(interceptor.intercept(second)).rejects.toThrow(
      /COMMAND_FAILED.*-I -c 10\.7\.0\.2.*no room in the table/,
    );
    // The half of it that had been diverted was taken back.
    expect(calls().at(-1)).toMatch(/^-D -c 10\.7\.0\.1 /);
    expect(await router.ip("route", "show", "table", "local")).not.toContain("10.7.0.1");
    await interceptor.intercept({ ...target, name: "third", addresses: ["10.8.0.1"] });
    expect(await curl(client, "http://10.8.0.1/")).toMatchObject({ service: "third" });
    expect(await curl(client, "http://10.5.0.1/")).toMatchObject({ service: "first" });
    refuses("");
    await interceptor.intercept(second);
    expect(await curl(client, "http://10.7.0.2/")).toMatchObject({ service: "second" });
  });

  test("an entry that it does not remove is logged, harms no other service, and is removed at the next call", async () => {
    const interceptor = await start({ diverter: program });
    await interceptor.intercept({ ...target, name: "first" });
    refuses("^-D -c 10.5.0.0");
    const logged = interceptor.program.nextLine(/"warn".*has not taken an entry back.*no room in the table/);
    await interceptor.forget("first");
    await logged;
    // It still diverts, but no listener answers any more.
    expect(typeof (await curl(client, "http://10.5.0.1/", "--max-time", "2"))).toBe("number");
    await interceptor.intercept({ ...target, name: "second", addresses: ["10.8.0.1"] });
    expect(await curl(client, "http://10.8.0.1/")).toMatchObject({ service: "second" });
    refuses("");
    await interceptor.forget("second");
    expect((await router.run("nft", "list", "ruleset")).stdout).not.toContain("tproxy");
    expect(await interceptor.program.stop()).toBe(0);
  });
});
