import { lineAt } from "../repository.ts";
import { CALLERS, type DependencyRule, RULES } from "./dependency-rules.ts";
import { type Import, importsIn, namesIn, packageOf, repositoryPath } from "./imports.ts";

export interface BrokenRule {
  readonly file: string;
  readonly line: number;
  readonly specifier: string;
  readonly rule: DependencyRule;
}

const isCaller = (file: string): boolean => /^(packages\/(resources|sdk|tunnel)|router|operator|cli)\//.test(file);

/** Holds one source file against the rules; `file` is its path from the repository's root. */
export function brokenRules(file: string, source: string, rules: readonly DependencyRule[] = RULES): BrokenRule[] {
  const rule = rules.find((r) => file.startsWith(r.from));
  if (rule === undefined) return [];
  // Tests may reach for anything that they set up, but still never for another program.
  const isTest = file.endsWith(".test.ts") || file.includes("/testing");
  const within = isTest ? [`${file.split("/")[0]}/`, "packages/"] : [rule.from];
  const broken: BrokenRule[] = [];
  for (const each of importsIn(source)) {
    const { specifier, isType, index } = each;
    const breaks = (rule: DependencyRule) => broken.push({ file, line: lineAt(source, index), specifier, rule });
    if (specifier === CALLERS.from && isCaller(file) && !isType && !isTest) breaks(CALLERS);
    const target = repositoryPath(file, specifier);
    const isAllowed =
      target === undefined
        ? isTest || mayLoad(rule, each)
        : within.some((place) => target.startsWith(place)) || mayImport(rule, each, target);
    // A package of many (packages/x) must not reach into its neighbour by a relative path.
    const reachesOver =
      specifier.startsWith(".") && file.startsWith("packages/") && target?.split("/")[1] !== file.split("/")[1];
    if (!isAllowed || reachesOver) breaks(rule);
  }
  return broken;
}

/** Whether a rule allows an npm package or a `node:` module. */
function mayLoad({ packages, names }: DependencyRule, { specifier, statement }: Import): boolean {
  if (packages === undefined || packages.includes(specifier) || packages.includes(packageOf(specifier))) return true;
  const some = names?.[specifier];
  return some !== undefined && namesIn(statement).every((each) => some.includes(each));
}

/** Whether a rule allows a place of the repository outside of its own. */
function mayImport(rule: DependencyRule, { specifier, isType }: Import, target: string): boolean {
  const places = isType ? [...rule.may, ...(rule.mayTypes ?? [])] : rule.may;
  return places.some((place) => target.startsWith(place)) || rule.packages?.includes(specifier) === true;
}
