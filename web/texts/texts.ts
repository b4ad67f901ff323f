/**
 * The texts of the console. A module names the catalogues whose texts it shows: `const texts = textsOf('files')`. They
 * are loaded when the module is, in the language in use only, and are there when a component renders, but not while
 * modules are evaluated.
 */
import { catalogues as en } from './en/catalogues.ts'
import { chooseLanguage, languageInUse, storeLanguage, type Language } from './language.ts'
import { catalogues as zhCN } from './zh-CN/catalogues.ts'

/** The contents of the catalogues. English is the source of their types. */
type Contents = { readonly [Name in keyof typeof en]: Awaited<ReturnType<(typeof en)[Name]>>['default'] }
export type CatalogueName = keyof Contents

/** The content of a catalogue in another language: no text less and none more than English has. */
export type Translation<Name extends CatalogueName> = Contents[Name]

/** Functions that load the catalogues of a language. */
export type Catalogues = {
  readonly [Name in CatalogueName]: () => Promise<{ readonly default: Translation<Name> }>
}

const catalogues: Readonly<Record<Language, Catalogues>> = { en, 'zh-CN': zhCN }

/** What is common to all members of a union, and what each of them has. */
type AllOf<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** The groups of texts of all catalogues that are loaded. A component that reads one is rendered in each language. */
const loaded = {}
/** The catalogues that modules have named; undefined: it could not be loaded. */
const requested = new Map<CatalogueName, Promise<void> | undefined>()

/** The texts of these catalogues. See above when they can be read. */
export function textsOf<Name extends CatalogueName>(...names: readonly Name[]): AllOf<Contents[Name]> {
  for (const name of names) if (!requested.has(name)) void request(name).catch(() => undefined)
  return loaded as AllOf<Contents[Name]>
}

async function request(name: CatalogueName): Promise<void> {
  const load = catalogues[languageInUse.peek().language][name]().then(({ default: texts }) => add(texts))
  requested.set(name, load)
  try {
    await load
  } catch (error) {
    requested.set(name, undefined)
    throw error
  }
}

function add(groups: object): void {
  for (const [name, texts] of Object.entries(groups)) {
    const get = () => (languageInUse.value, texts as unknown)
    Object.defineProperty(loaded, name, { get, configurable: true })
  }
}

/**
 * Resolves to the module when the texts are loaded that it and its imports have named. Rejects if any cannot be. Those
 * that could not be loaded before are requested again.
 */
export async function withTexts<Module>(module: Promise<Module>): Promise<Module> {
  const evaluated = await module
  await Promise.all([...requested].map(([name, load]) => load ?? request(name)))
  return evaluated
}

/** Shows this language; undefined: that of the browser. Rejects, and changes nothing, if it cannot be loaded. */
export async function changeLanguage(choice: Language | undefined): Promise<void> {
  const { language: next } = chooseLanguage(navigator.languages, choice)
  const contents = await Promise.all([...requested.keys()].map((name) => catalogues[next][name]()))
  for (const { default: texts } of contents) add(texts)
  storeLanguage(choice)
}

/** The text of a name that the server sends; undefined if there is none. */
export function textFor(name: string, texts: Readonly<Record<string, string>>): string | undefined {
  return Object.hasOwn(texts, name) ? texts[name] : undefined
}
