/** Shares: their rows, the files and folders in them, their counters and visits. */
import type { Knex } from 'knex'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { FairShare } from '../base/fair-share.js'
import type { Path } from '../base/path.js'
import type { ShareMode } from '../base/rights.js'
import {
  bool,
  integer,
  optional,
  path,
  readRow,
  text,
  time,
  wordList,
  writeRow,
  type Columns,
  type StoredRow,
} from './columns.js'
import type { Database } from './database.js'
import { databaseTime } from './dialect.js'
import { following, PathTable } from './path-table.js'
import type { ShareRoot, ShareRow, ShareUse, Visitor } from './tables/shares.js'

/** The most visits of a share that are stored, without a limit and with one: visitors choose their names. */
const maxStoredVisits = { unlimited: 10_000, limited: 100_000 } as const

const columns: Columns<ShareRow> = {
  id: text('id'),
  creatorId: integer('creator_id'),
  mode: text<ShareMode>('mode'),
  code: text('password'),
  expires: optional(time('expires')),
  maxVisits: integer('max_accessed'),
  disabled: bool('disabled'),
  remark: text('remark'),
  readme: text('readme'),
  header: text('header'),
  orderBy: text<ShareRow['orderBy']>('order_by'),
  orderDirection: text<ShareRow['orderDirection']>('order_direction'),
  extractFolder: text<ShareRow['extractFolder']>('extract_folder'),
  allowFrom: wordList('allow_from'),
  webdav: bool('webdav'),
  uploadMaxBytes: integer('upload_max_bytes'),
  uploadMaxFiles: integer('upload_max_files'),
  created: time('created'),
}

const rootColumns: Columns<ShareRoot> = {
  id: integer('id'),
  shareId: text('share_id'),
  position: integer('position'),
  path: path('path'),
  removed: bool('removed'),
}

/** Maximum ids in one SQL statement. */
const idsPerQuery = 1000

/** Maximum shares that one SQL statement stores: each may have long texts. */
const sharesPerInsert = 100

export interface NewShare {
  readonly row: ShareRow
  readonly roots: readonly Path[]
  readonly visits: number
}

export class SharesTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<ShareRow[]> {
    const stored = await this.database.read((query) => query<StoredRow>('shares').select().orderBy('id'))
    return stored.map((row) => readRow(columns, row))
  }

  async insert(row: ShareRow, roots: readonly Path[], visits: number): Promise<void> {
    await this.insertAll([{ row, roots, visits }])
  }

  async insertAll(shares: readonly NewShare[]): Promise<void> {
    await this.database.transaction(async (query) => {
      for (let at = 0; at < shares.length; at += sharesPerInsert) {
        const part = shares.slice(at, at + sharesPerInsert)
        await query('shares').insert(part.map(({ row }) => writeRow(columns, row)))
        await query('share_use').insert(part.map(useOf))
        for (const { row, roots } of part) await insertRoots(query, row.id, roots)
      }
    })
  }

  async update(
    id: string,
    changes: Partial<ShareRow>,
    roots: readonly Path[] | undefined,
    visits: number | undefined,
  ): Promise<void> {
    await this.database.transaction(async (query) => {
      const now = changes.id ?? id
      const changed = await query('shares')
        .where({ id })
        .update({ id, ...writeRow(columns, changes) })
      if (changed === 0) throw new GatewayError('not_found', { reason: 'there is no such share' })
      if (visits !== undefined) await query('share_use').where({ share_id: now }).update({ accessed: visits })
      if (roots !== undefined) await setRoots(query, now, roots)
    })
  }

  async delete(id: string): Promise<boolean> {
    return (await this.database.run((query) => query('shares').where({ id }).delete())) > 0
  }

  async use(ids: readonly string[]): Promise<ReadonlyMap<string, ShareUse>> {
    const used = new Map<string, ShareUse>()
    for (let at = 0; at < ids.length; at += idsPerQuery) {
      const rows = await this.database.read((query) =>
        query<StoredRow>('share_use')
          .whereIn('share_id', ids.slice(at, at + idsPerQuery))
          .select(),
      )
      for (const row of rows) {
        used.set(row.share_id as string, {
          visits: Number(row.accessed),
          uploadedBytes: Number(row.uploaded_bytes),
          uploadedFiles: Number(row.uploaded_files),
        })
      }
    }
    return used
  }
}

function useOf({ row, visits }: NewShare) {
  return { share_id: row.id, accessed: visits, uploaded_bytes: 0, uploaded_files: 0 }
}

async function insertRoots(query: Knex, shareId: string, paths: readonly Path[]): Promise<void> {
  if (paths.length === 0) return
  await query('share_roots').insert(
    paths.map((path, position) => ({ share_id: shareId, path, position, removed: false })),
  )
}

/** A root that keeps its path keeps its row. */
async function setRoots(query: Knex, shareId: string, paths: readonly Path[]): Promise<void> {
  await query('share_roots').where({ share_id: shareId }).whereNotIn('path', paths).delete()
  for (const [position, at] of paths.entries()) {
    const root = { share_id: shareId, path: at }
    const kept = await query('share_roots').where(root).update({ position })
    if (kept === 0) await query('share_roots').insert({ ...root, position, removed: false })
  }
}

export class ShareRootsTable extends PathTable<ShareRoot> {
  constructor(database: Database) {
    super(database, following.shares, rootColumns)
  }
}

/**
 * Maximum number of transactions of shares at a time. The transactions of one share wait for the same row, and each
 * holds a connection while it waits. Without this limit, visitors could take all connections, and the node could not
 * even store its heartbeat.
 */
const maxTransactions = 4

/** In place of the id of the share, for those of uploads that have been reserved. */
const anyShare = ''

export class ShareTurns {
  readonly #turns = new FairShare(maxTransactions, { most: 1 })

  constructor(private readonly database: Database) {}

  /** Runs a transaction of a share after the others of this share and process. */
  transaction<T>(shareId: string, work: (query: Knex) => Promise<T>): Promise<T> {
    return this.#turns.run(shareId, () => this.database.transaction(work))
  }
}

export class ShareVisitsTable {
  constructor(
    private readonly database: Database,
    private readonly turns: ShareTurns,
  ) {}

  async isIn(shareId: string, visitor: Visitor, time: number): Promise<boolean> {
    const visit = await this.database.read((query) => find(query, shareId, visitor, time))
    if (visit?.isShownNow === true) await this.database.run((query) => show(query, visit))
    return visit !== undefined
  }

  async enter(shareId: string, visitor: Visitor, time: number): Promise<'begun' | 'in' | undefined> {
    return this.turns.transaction(shareId, async (query) => {
      // Visits of one share begin one after another, on all nodes.
      await query('share_use').where({ share_id: shareId }).update({ share_id: shareId })
      const visit = await find(query, shareId, visitor, time)
      if (visit?.isShownNow === true) await show(query, visit)
      if (visit !== undefined) return 'in'
      const counted = await query('share_use')
        .where({ share_id: shareId })
        .whereExists(
          query('shares')
            .where('shares.id', shareId)
            .andWhere(
              (limit) =>
                void limit
                  .where('shares.max_accessed', '<=', 0)
                  .orWhere('shares.max_accessed', '>', query.ref('share_use.accessed')),
            )
            .select(query.raw('1')),
        )
        .update({ accessed: query.raw('accessed + 1') })
      if (counted === 0) return undefined
      if (await hasRoom(query, shareId)) await insert(query, shareId, visitor)
      return 'begun'
    })
  }

  async sweep(time: number): Promise<void> {
    await this.database.run((query) =>
      query('share_visits')
        .where('started', '<', query.raw('? - ?', [databaseTime(query), time]))
        .delete(),
    )
  }
}

export class ShareUploadsTable {
  /** `owner`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly turns: ShareTurns,
    private readonly owner: string,
  ) {}

  async reserve(shareId: string, bytes: number, files: number): Promise<number | undefined> {
    return this.turns.transaction(shareId, async (query) => {
      await lockUse(query, shareId)
      const living = query('nodes').whereNull('ended').select('id')
      await query('share_uploads').whereNotIn('owner', living).delete()
      const left = await leftOf(query, shareId)
      if (bytes > left.bytes || files > left.files) return undefined
      const row = { share_id: shareId, owner: this.owner, bytes, files }
      const inserted = await query('share_uploads').insert(row).returning<{ id: number }[]>('id')
      return Number(inserted[0]?.id)
    })
  }

  async extend(id: number, needed: number, wished: number): Promise<number | undefined> {
    return this.turns.transaction(anyShare, async (query) => {
      const shareId = await shareOfUpload(query, id)
      if (shareId === undefined) throw new GatewayError('not_found', { detail: 'share_ended' })
      await lockUse(query, shareId)
      const left = await leftOf(query, shareId)
      if (needed > left.bytes) return undefined
      const bytes = Math.min(wished, left.bytes)
      await query('share_uploads').where({ id }).increment('bytes', bytes)
      return bytes
    })
  }

  async isClaimed(path: string): Promise<boolean> {
    const claim = await this.database.read((query) => query<StoredRow>('share_uploads').where({ path }).first())
    return claim !== undefined
  }

  async claim(id: number, path: string): Promise<boolean> {
    try {
      return (await this.database.run((query) => query('share_uploads').where({ id }).update({ path }))) > 0
    } catch (error) {
      if (isGatewayError(error, 'exists')) return false
      throw error
    }
  }

  async finish(id: number, bytes: number, files: number): Promise<void> {
    await this.turns.transaction(anyShare, async (query) => {
      const shareId = await shareOfUpload(query, id)
      if (shareId === undefined) return
      await query('share_uploads').where({ id }).delete()
      await query('share_use').where({ share_id: shareId }).increment({ uploaded_bytes: bytes, uploaded_files: files })
    })
  }

  async release(id: number): Promise<void> {
    await this.database.run((query) => query('share_uploads').where({ id }).delete())
  }
}

/** Locks a reservation. Undefined if it has ended. */
async function shareOfUpload(query: Knex, id: number): Promise<string | undefined> {
  const [row] = await query('share_uploads').where({ id }).update({ id }).returning<{ share_id: string }[]>('share_id')
  return row?.share_id
}

/** Visits and uploads of one share are counted one after another. `not_found` if it was deleted. */
async function lockUse(query: Knex, shareId: string): Promise<void> {
  const locked = await query('share_use').where({ share_id: shareId }).update({ share_id: shareId })
  if (locked === 0) throw new GatewayError('not_found', { detail: 'share_missing' })
}

/** Returns the bytes and files that uploads to the share may still add. */
async function leftOf(query: Knex, shareId: string): Promise<{ readonly bytes: number; readonly files: number }> {
  const limits = await query<StoredRow>('shares').where({ id: shareId }).first()
  const used = await query<StoredRow>('share_use').where({ share_id: shareId }).first()
  const [reserved] = await query('share_uploads')
    .where({ share_id: shareId })
    .sum<readonly StoredRow[]>({ bytes: 'bytes', files: 'files' })
  const left = (limit: unknown, ...counts: readonly unknown[]) =>
    Number(limit) === 0 ? Infinity : Number(limit) - counts.reduce<number>((sum, count) => sum + Number(count ?? 0), 0)
  return {
    bytes: left(limits?.upload_max_bytes, used?.uploaded_bytes, reserved?.bytes),
    files: left(limits?.upload_max_files, used?.uploaded_files, reserved?.files),
  }
}

/** Whether another visit is stored. */
async function hasRoom(query: Knex, shareId: string): Promise<boolean> {
  const limited = await query<StoredRow>('shares').where({ id: shareId }).andWhere('max_accessed', '>', 0).first()
  const most = maxStoredVisits[limited === undefined ? 'unlimited' : 'limited']
  const last = await query<StoredRow>('share_visits')
    .where({ share_id: shareId })
    .offset(most - 1)
    .first()
  return last === undefined
}

async function insert(query: Knex, shareId: string, { cookie, issued, client }: Visitor): Promise<void> {
  await query('share_visits').insert({
    share_id: shareId,
    cookie: cookie ?? issued,
    client,
    shown: cookie !== undefined,
    started: databaseTime(query),
  })
}

interface FoundVisit {
  readonly id: unknown
  /** Whether this request is the first one that shows the cookie of the visit. */
  readonly isShownNow: boolean
}

/**
 * The visit of the visitor's cookie. Without one: that of the client, if no request of that visit has had its cookie.
 */
async function find(
  query: Knex,
  shareId: string,
  { cookie, client }: Visitor,
  time: number,
): Promise<FoundVisit | undefined> {
  const visit = await query<StoredRow>('share_visits')
    .where({ share_id: shareId })
    .andWhere(cookie === undefined ? { client, shown: false } : { cookie })
    .andWhere('started', '>=', query.raw('? - ?', [databaseTime(query), time]))
    .first()
  return visit && { id: visit.id, isShownNow: cookie !== undefined && !visit.shown }
}

async function show(query: Knex, { id }: FoundVisit): Promise<void> {
  await query('share_visits').where({ id }).update({ shown: true })
}
