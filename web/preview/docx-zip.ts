/**
 * What docx-preview needs of JSZip, which it imports: the build puts this module in its place, so that the members are
 * read within bounds.
 */
import { PreviewFailure } from './failure.ts'
import { readXml } from './xml.ts'
import type { Zip } from './zip.ts'

interface Member {
  readonly async: (type: 'string' | 'blob' | 'uint8array') => Promise<string | Blob | Uint8Array>
}

/** Characters of XML that one document may have. */
const mostCharacters = 48 * 2 ** 20

export default {
  loadAsync: async (zip: Zip): Promise<{ readonly files: Readonly<Record<string, Member>> }> => {
    let characters = 0
    const contentOf = async (name: string, type: Parameters<Member['async']>[0]) => {
      const bytes = zip.read(name) ?? new Uint8Array()
      if (type === 'uint8array') return bytes
      if (type === 'blob') return new Blob([bytes])
      await readXml(bytes, {})
      characters += bytes.length
      if (characters > mostCharacters) throw new PreviewFailure('tooLarge')
      return new TextDecoder().decode(bytes)
    }
    const files = [...zip.names].map((name) => [name, { async: (type) => contentOf(name, type) } satisfies Member])
    return { files: Object.assign(Object.create(null), Object.fromEntries(files)) as Record<string, Member> }
  },
}
