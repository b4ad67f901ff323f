/**
 * The texts of the console. A module names the catalogues whose texts it shows: `const texts = textsOf('files')`. They
 * are loaded when the module is, in the language in use only, and are there when a component renders, but not while
 * modules are evaluated.
 */
import { catalogues as en } from './en/catalogues.ts'
import { language, type Language } from './language.ts'
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

const catalogues = ({ en, 'zh-CN': zhCN } satisfies Record<Language, Catalogues>)[language]

/** What is common to all members of a union, and what each of them has. */
type AllOf<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** The groups of texts of all catalogues that are loaded. */
const loaded = {}
const requested = new Map<CatalogueName, Promise<unknown>>()

/** The texts of these catalogues. See above when they can be read. */
export function textsOf<Name extends CatalogueName>(...names: readonly Name[]): AllOf<Contents[Name]> {
  for (const name of names) {
    if (requested.has(name)) continue
    const load = catalogues[name]().then(({ default: texts }) => Object.assign(loaded, texts))
    // A failure is reported by withTexts.
    load.catch(() => undefined)
    requested.set(name, load)
  }
  return loaded as AllOf<Contents[Name]>
}

/** Resolves to the module when the texts are loaded that it and its imports have named. Rejects if any cannot be. */
export async function withTexts<Module>(module: Promise<Module>): Promise<Module> {
  const evaluated = await module
  await Promise.all(requested.values())
  return evaluated
}

/** The text of a name that the server sends; undefined if there is none. */
export function textFor(name: string, texts: Readonly<Record<string, string>>): string | undefined {
  return Object.hasOwn(texts, name) ? texts[name] : undefined
}
