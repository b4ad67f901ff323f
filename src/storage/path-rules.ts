/**
 * The rules of every driver that follow from the paths of a call alone. They are checked here, so that no driver checks
 * them: the root folder stays, a move onto itself does nothing, and no folder is moved into itself.
 */
import type { Driver } from '../contract/driver.js'
import type { Traits } from '../contract/traits.js'
import { GatewayError } from '../contract/errors.js'
import { foldCase, isWithin, root, type Path } from '../contract/path.js'
import { overriding } from './overriding.js'

/** Returns the driver with its calls checked. */
export function withPathRules(driver: Driver, { caseSensitive }: Pick<Traits, 'caseSensitive'>): Driver {
  const assertMovable = (path: Path) => {
    if (path === root) throw new GatewayError('denied', { reason: 'the root folder cannot be removed or moved' })
  }
  const assertFile = (path: Path) => {
    if (path === root) throw new GatewayError('is_folder')
  }
  const isBelow = (folder: Path, path: Path) => {
    const [one, other] = caseSensitive ? [folder, path] : [foldCase(folder), foldCase(path)]
    return one !== other && isWithin(one, other)
  }
  return overriding(driver, (inner) => ({
    read: async (path, range, options) => {
      assertFile(path)
      return inner.read(path, range, options)
    },
    open: async (path, mode, options) => {
      assertFile(path)
      return inner.open(path, mode, options)
    },
    write: async (path, source, options) => {
      assertFile(path)
      return inner.write(path, source, options)
    },
    upload: async (path, plan, options) => {
      assertFile(path)
      return inner.upload(path, plan, options)
    },
    mkdir: async (path, options) => {
      if (path === root) throw new GatewayError('exists')
      return inner.mkdir(path, options)
    },
    remove: async (path, options) => {
      assertMovable(path)
      return inner.remove(path, options)
    },
    removeTree: async (path, options) => {
      assertMovable(path)
      return inner.removeTree(path, options)
    },
    move: async (from, to, options) => {
      assertMovable(from)
      assertFile(to)
      if (from === to) {
        await inner.stat(from, { ...options, ofSymlink: true })
        return
      }
      if (isBelow(from, to)) {
        const { kind } = await inner.stat(from, { ...options, ofSymlink: true })
        throw kind === 'folder'
          ? new GatewayError('invalid', { detail: 'into_itself' })
          : new GatewayError('not_folder')
      }
      return inner.move(from, to, options)
    },
    copy: async (from, to, options) => {
      assertFile(to)
      return inner.copy(from, to, options)
    },
  }))
}
