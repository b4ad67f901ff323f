/** Names that exist already. */
import { ApiError } from '../api/client.ts'
import { joined, nameOf, parentOf } from '../components/places.ts'

/**
 * Whether the server has refused an upload with `Overwrite: false` because the name exists: before it has received it,
 * or with code 400 when an upload in parts is completed, if the file was made meanwhile.
 */
export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.error === 'exists'
}

/** An error as the server reports it. */
export function conflict(): ApiError {
  return new ApiError('file exists', 'exists')
}

/** `/folder/tide (2).txt` for `/folder/tide.txt` and 2. */
export function numberedPath(path: string, number: number): string {
  const name = nameOf(path)
  const dot = name.lastIndexOf('.')
  const end = dot > 0 ? dot : name.length
  return joined(parentOf(path), `${name.slice(0, end)} (${number})${name.slice(end)}`)
}
