/** What a run may have left that was killed while it replaced `/file` (`Replacements`), and what becomes of it. */

const backup = 'file~replaced-00000000'
const staged = '.~tidegate-part-gone-0123456789ab'

/** The entry of the journal, as it is stored. */
export const leftReplacement = { from: `/${staged}`, to: '/file', backup: `/${backup}`, isStaged: true, size: 3 }

interface LeftFiles {
  /** Texts by name. */
  readonly files: Readonly<Record<string, string>>
  /** The text of `/file` after the start. */
  readonly content: string
  /** The names that are left, sorted. */
  readonly left: readonly string[]
}

const left = ['file']

export const leftFiles: readonly LeftFiles[] = [
  { files: { file: 'old', [staged]: 'new' }, content: 'old', left },
  { files: { [backup]: 'old', [staged]: 'new' }, content: 'old', left },
  { files: { [backup]: 'old', file: 'new' }, content: 'new', left },
  { files: { file: 'new' }, content: 'new', left },
  { files: { [staged]: 'new' }, content: 'new', left },
  // The new file is incomplete, or another client has created it: the old one must not go.
  { files: { [backup]: 'old', file: 'n' }, content: 'n', left: ['file', backup] },
  { files: { [backup]: 'old', file: 'n', [staged]: 'new' }, content: 'n', left: ['file', backup] },
  { files: { [backup]: 'old', file: 'other', [staged]: 'new' }, content: 'other', left: ['file', backup] },
]
