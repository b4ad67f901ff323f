/** All protocols. Importing this module does not load an implementation. */
import { http } from './http/index.js'
import type { Protocol } from './lib/protocol.js'
import { sftp } from './sftp/index.js'
import { webdav } from './webdav/index.js'

export const protocols: readonly Protocol[] = [http, webdav, sftp]
