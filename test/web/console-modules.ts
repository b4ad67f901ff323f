/** Modules of the console that run without a browser: texts, formats and other logic. */
import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'

export interface Settings {
  /** The languages of the browser, best first. */
  readonly languages: readonly string[]
  /** What the user has chosen. */
  readonly chosen?: string
}

/** The exports of `source`, TypeScript of a file in `web/`, in a browser with these settings. */
export async function consoleModule(source: string, { languages, chosen }: Settings): Promise<unknown> {
  const { outputFiles } = await build({
    stdin: { contents: source, loader: 'ts', resolveDir: 'web' },
    bundle: true,
    write: false,
    format: 'iife',
    globalName: 'exported',
    logLevel: 'silent',
  })
  const [{ text } = { text: '' }] = outputFiles
  const localStorage = { getItem: (name: string) => (name === 'language' ? (chosen ?? null) : null) }
  const document = { baseURI: 'http://127.0.0.1/' }
  const ofBrowser = { navigator: { languages }, localStorage, document, URL, TextDecoder, atob, btoa }
  return runInContext(`${text}; exported`, createContext(ofBrowser))
}

/** The texts of a language by their places, such as `files.name`; functions have `…` and 2 in their results. */
export async function textsIn(language: string): Promise<ReadonlyMap<string, string>> {
  const { texts } = (await consoleModule(
    `import { catalogues } from './texts/${language}/catalogues.ts'
     const load = async ([name, load]) => [name, (await load()).default]
     export const texts = Promise.all(Object.entries(catalogues).map(load)).then(Object.fromEntries)`,
    { languages: [language] },
  )) as { readonly texts: Promise<Readonly<Record<string, unknown>>> }
  const found = new Map<string, string>()
  for (const groups of Object.values(await texts)) collect(groups, '', found)
  return found
}

function collect(value: unknown, place: string, found: Map<string, string>): void {
  if (typeof value === 'string') found.set(place, value)
  else if (typeof value === 'function') found.set(place, sample(value as (...values: unknown[]) => string))
  else for (const [name, inner] of Object.entries(value as object)) collect(inner, `${place}.${name}`, found)
}

/** What the function makes of texts, numbers or lists, whichever it takes. */
function sample(text: (...values: unknown[]) => string): string {
  const kinds = ['…', ['…'], 2]
  for (const first of kinds) {
    for (const second of kinds) {
      try {
        const made = text(first, second, second, second)
        if (made !== '' && !made.includes('NaN')) return made
      } catch {
        // It takes something else.
      }
    }
  }
  throw new Error(`takes none of the samples: ${String(text)}`)
}
