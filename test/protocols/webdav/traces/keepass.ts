/** Requests that KeePass and related programs send to save a database: by a rename, and in place with an entity tag. */
import { status, type Trace } from './trace.js'

const database = '/dav/keepass/Vault.kdbx'

/** A transacted save: it uploads the new content under another name, and renames it over the old file. */
export const keePass: Trace = {
  client: 'KeePass',
  userAgent: 'KeePass',
  folder: 'keepass',
  steps: [
    { request: `GET ${database}`, answer: status(404) },
    { request: `PUT ${database}.tmp`, body: 'first', answer: status(201) },
    { request: `DELETE ${database}`, answer: status(404) }, // older versions make room first
    {
      request: `MOVE ${database}.tmp`,
      headers: { destination: '{dav}/keepass/Vault.kdbx', overwrite: 'T' },
      answer: status(201),
    },
    { request: `GET ${database}`, answer: { status: 200, headers: { 'last-modified': / GMT$/ }, body: 'first' } },
    { request: `PUT ${database}.tmp`, body: 'second', answer: status(201) },
    {
      request: `MOVE ${database}.tmp`,
      headers: { destination: '{dav}/keepass/Vault.kdbx', overwrite: 'T' },
      answer: status(204),
    },
    { request: `GET ${database}`, answer: { status: 200, headers: { 'content-length': '6' }, body: 'second' } },
    { request: `GET ${database}.tmp`, answer: status(404) },
    {
      // KeePassDX and Keepass2Android write in place, with the entity tag that they have read.
      request: `HEAD ${database}`,
      answer: { status: 200, headers: { etag: /^"/ } },
      keep: { etag: 'etag' },
    },
    { request: `PUT ${database}`, headers: { 'if-match': '{etag}' }, body: 'third', answer: status(204) },
    { request: `PUT ${database}`, headers: { 'if-match': '{etag}' }, body: 'lost update', answer: status(412) },
    { request: `GET ${database}`, answer: { status: 200, body: 'third' } },
  ],
}
