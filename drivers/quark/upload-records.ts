/**
 * What has to be known to go on with an upload after a restart: its task, and the tags of the parts that are stored.
 * The API does not list them. It is in the state of the driver, in blocks, so that each part costs one short record.
 */
import type { DriverState } from '../../src/contract/driver-env.js'
import type { OssPart } from '../lib/cloud/aliyun-oss.js'
import type { FileHashes, UploadTask } from './api.js'

/** Stored as JSON, so the names of its fields must not change. */
export interface UploadRecord {
  readonly task: UploadTask
  /** The folder that the file is uploaded to, and its name there. */
  readonly parentId: string
  readonly stagedName: string
  /** Bytes of the whole file. */
  readonly size: number
  readonly hashes: FileHashes
}

/** Parts of one block. */
const blockLength = 500

export class UploadRecords {
  constructor(private readonly state: DriverState) {}

  async add(record: UploadRecord): Promise<void> {
    await this.state.set(keyOf(record.task.taskId), JSON.stringify(record))
  }

  /** Stores that the last one of these parts, which are all from the first one on, is stored. */
  async addPart({ taskId }: UploadTask, parts: readonly OssPart[]): Promise<void> {
    const block = Math.floor((parts.length - 1) / blockLength)
    const tags = parts.slice(block * blockLength).map(({ etag }) => etag)
    await this.state.set(keyOf(taskId, block), JSON.stringify(tags))
  }

  /** The upload with this token, and its stored parts from the first one on; undefined if there is none. */
  async find(
    token: string,
  ): Promise<{ readonly record: UploadRecord; readonly parts: readonly OssPart[] } | undefined> {
    const text = await this.state.get(keyOf(token))
    if (text === undefined) return undefined
    const record = JSON.parse(text) as UploadRecord
    const { partSize } = record.task
    const parts: OssPart[] = []
    for (let block = 0; block < blocksOf(record); block++) {
      const tags = JSON.parse((await this.state.get(keyOf(token, block))) ?? '[]') as readonly string[]
      for (const etag of tags) {
        const size = Math.min(partSize, record.size - parts.length * partSize)
        parts.push({ number: parts.length + 1, size, etag })
      }
      if (tags.length < blockLength) break
    }
    return { record, parts }
  }

  /** An unknown token is not an error. */
  async remove(token: string): Promise<void> {
    const found = await this.find(token)
    if (!found) return
    await this.state.set(keyOf(token), undefined)
    for (let block = 0; block < blocksOf(found.record); block++) await this.state.set(keyOf(token, block), undefined)
  }
}

function blocksOf({ size, task: { partSize } }: UploadRecord): number {
  return Math.ceil(Math.ceil(size / partSize) / blockLength)
}

function keyOf(token: string, block?: number): string {
  return block === undefined ? `upload ${token}` : `upload ${token} parts ${block}`
}
