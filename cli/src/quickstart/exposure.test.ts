import { describe, expect, it } from "vitest";
import { checkedHost } from "./addresses.ts";
import { checkNoDoubles, exposureOf, servedFolderOf } from "./exposure.ts";
import { dataFolder } from "./home.ts";

describe("what a quick start is asked for", () => {
  it.each([
    ["8080", { name: "port-8080", host: "127.0.0.1", port: 8080 }],
    ["web=8080", { name: "web", host: "127.0.0.1", port: 8080 }],
    ["localhost:80", { name: "port-80", host: "localhost", port: 80 }],
    ["db.example.org:5432", { name: "db-example-org-5432", host: "db.example.org", port: 5432 }],
    ["db=[fd00::5]:5432", { name: "db", host: "fd00::5", port: 5432 }],
    ["[fd00::5]:5432", { name: "fd00-5-5432", host: "fd00::5", port: 5432 }],
  ])("--expose %s is a service with a target", (text, exposure) => {
    expect(exposureOf(text)).toEqual(exposure);
  });

  it.each([
    "",
    "web",
    "0",
    "65536",
    "web=",
    "=8080",
    "a b:80",
    "fd00::5:80",
    "[10.0.0.1]:80",
    "Web=80",
    "-a=80",
    "a\u001b[2J=80",
  ])("--expose %j is refused with what is expected", (text) => {
    expect(() => exposureOf(text)).toThrow(/expected|expects/);
  });

  it("has a name for each service", () => {
    expect(() => checkNoDoubles(["80", "a=81", "localhost:80"].map(exposureOf))).toThrow(
      "two services would be called 'port-80': name them, such as --expose port-80-2=PORT or --serve port-80-2=DIR",
    );
  });

  it("has a folder for --serve, named after it", () => {
    expect(servedFolderOf("/srv/My Files")).toEqual({ name: "my-files", folder: "/srv/My Files" });
    expect(servedFolderOf("docs=/srv/a=b")).toEqual({ name: "docs", folder: "/srv/a=b" });
    expect(servedFolderOf("/").name).toBe("files");
    for (const text of ["", "web=", "-=/srv"]) expect(() => servedFolderOf(text)).toThrow(/expects|expected/);
  });

  it("has a host that others can dial", () => {
    for (const host of ["localhost", "net.example.org", "10.0.0.1", "fd00::1", "my_host"])
      expect(checkedHost(host)).toBe(host);
    expect(checkedHost("[fd00::1]")).toBe("fd00::1");
    for (const host of ["", "https://a", "a:80", "10.0.0", "a b", "a..b", "-a", "x\n"])
      expect(() => checkedHost(host)).toThrow("--host expects");
  });

  it("has a folder in the user's data", () => {
    expect(dataFolder("quickstart", { XDG_DATA_HOME: "/data", HOME: "/home/me" })).toBe("/data/sallyport/quickstart");
    expect(dataFolder("quickstart", { XDG_DATA_HOME: "data", HOME: "/home/me" })).toBe(
      "/home/me/.local/share/sallyport/quickstart",
    );
    expect(() => dataFolder("quickstart", {})).toThrow("choose one with --dir DIR");
  });
});
