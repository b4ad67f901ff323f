/** Folder rules. */
import type { Path } from '../../base/path.js'

export interface FolderRule {
  readonly id: number
  readonly path: Path
  readonly password: string
  readonly passwordSub: boolean
  /** Whether all users may create folders and upload here. */
  readonly write: boolean
  readonly writeSub: boolean
  /** Lines of regular expressions, tested against base names. */
  readonly hide: string
  readonly hideSub: boolean
  readonly readme: string
  readonly readmeSub: boolean
  readonly header: string
  readonly headerSub: boolean
  /** Ids of the users who may read here; empty: all users. */
  readonly readUsers: readonly number[]
  readonly readUsersSub: boolean
  readonly writeUsers: readonly number[]
  readonly writeUsersSub: boolean
}
