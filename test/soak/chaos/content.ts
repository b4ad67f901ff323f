/** Contents that name their writer and can be verified, so that a torn or mixed file is recognized. */
import { createHash } from 'node:crypto'

/** A content of at least `size` bytes. `id`: without spaces, unique in the run. */
export function contentOf(id: string, size: number): Buffer {
  const line = `${id} ${createHash('sha256').update(`${id} ${size}`).digest('hex')}\n`
  const body = line.repeat(Math.ceil(size / line.length))
  return Buffer.from(`${id} ${body.length} ${digestOf(body)}\n${body}`)
}

/** The id of a complete content; '' of an empty one. Undefined: it is not what any client has written. */
export function idOf(content: Buffer): string | undefined {
  if (content.length === 0) return ''
  const [, id, length, digest, body = ''] = /^(\S+) (\d+) ([\da-f]{64})\n([^]*)$/.exec(content.toString('latin1')) ?? []
  return body.length === Number(length) && digestOf(body) === digest ? id : undefined
}

function digestOf(body: string): string {
  return createHash('sha256').update(body).digest('hex')
}
