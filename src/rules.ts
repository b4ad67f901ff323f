/** A folder rule (the API calls it meta). Paths are of the whole tree. The nearest one wins completely. */
import type { Path } from './path.js'

export interface FolderRule {
  readonly id: number
  readonly path: Path
  readonly password: string
  readonly passwordSub: boolean
  readonly write: boolean
  readonly writeSub: boolean
  /** Lines of regular expressions, tested against base names. */
  readonly hide: string
  readonly hideSub: boolean
  readonly readme: string
  readonly readmeSub: boolean
  readonly header: string
  readonly headerSub: boolean
  /** User ids; empty: everybody. */
  readonly readUsers: readonly number[]
  readonly readUsersSub: boolean
  readonly writeUsers: readonly number[]
  readonly writeUsersSub: boolean
}
