/** What the rules of old versions of File Browser also denied: paths that begin with the path of a rule. */
import { opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../../contract/errors.js'
import { childOf, isListableName, nameOf, parentOf, root, type Path } from '../../contract/path.js'

/** The largest number of rules with another path, and of names that begin with one. */
const limits = { rules: 10_000, names: 1000 }

/** Finds what exists beside the paths of rules. Each folder is read once for each path. */
export class PrefixedNames {
  readonly #found = new Map<Path, Promise<readonly Path[]>>()

  /** `folder`: of the disk, which is shown at `/`. */
  constructor(private readonly folder: string) {}

  /**
   * The paths of the entries in the same folder whose names begin with the name of this path and have more characters.
   * Empty if the folder does not exist. Rejects with `invalid` if it cannot be read or has too many of them.
   */
  async beside(path: Path): Promise<readonly Path[]> {
    if (path === root) return []
    const known = this.#found.get(path)
    if (known) return known
    if (this.#found.size === limits.rules) {
      throw new GatewayError('invalid', { reason: `there are rules for more than ${limits.rules} paths` })
    }
    const reading = this.#read(parentOf(path), nameOf(path))
    this.#found.set(path, reading)
    return reading
  }

  async #read(parent: Path, prefix: string): Promise<readonly Path[]> {
    const found: Path[] = []
    try {
      for await (const { name } of await opendir(join(this.folder, parent))) {
        if (name === prefix || !name.startsWith(prefix) || !isListableName(name)) continue
        if (found.push(childOf(parent, name)) > limits.names) {
          throw new GatewayError('invalid', {
            reason: `more than ${limits.names} names in ${parent} begin with ${prefix}, which old versions denied too`,
          })
        }
      }
    } catch (error) {
      if (error instanceof GatewayError) throw error
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' || code === 'ENOTDIR') return []
      const reason = `the folder ${parent} cannot be read, in which old versions also denied names: ${message}`
      throw new GatewayError('invalid', { reason, cause: error })
    }
    return found
  }
}
