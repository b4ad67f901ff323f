/** Paths of the tree, as commands are given them. */
import { GatewayError } from '../base/errors.js'
import { cleanPath, type Path } from '../base/path.js'

/** Throws `invalid` for a path that does not begin with `/`: no folder of the tree is the current one of a command. */
export function treePath(text: string): Path {
  if (text.startsWith('/')) return cleanPath(text)
  throw new GatewayError('invalid', { reason: `${text} is not a path of the tree, which begins with /` })
}
