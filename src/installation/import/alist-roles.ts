/** The roles of newer versions of AList, as groups with grants. */
import { permissionBits } from '../../accounts/principal.js'
import { GatewayError } from '../../base/errors.js'
import { cleanPath, root, selfAndAncestors, type Path } from '../../base/path.js'
import { changingRights } from '../../base/rights.js'
import { textOf, type ForeignRow } from '../../database/foreign-sqlite.js'
import type { ImportedGrant, ImportedGroup } from '../../database/installation.js'
import type { ImportedGrants } from './grants.js'
import { groupOf } from './group.js'
import type { Report } from './report.js'

/** Users with this role are administrators. */
export const adminRole = 2

/** What a role permits in a folder, and everything below it. */
interface Scope {
  readonly path: Path
  /** Sum of permission bits. */
  readonly permission: number
}

interface AlistRole {
  /** The group of the role, without its members. */
  readonly group: ImportedGroup
  readonly scopes: readonly Scope[]
}

/** The roles by id. */
export type AlistRoles = ReadonlyMap<number, AlistRole>

/** The largest number of folders of a role. */
const maxScopes = 1000

const contentPermissions = changingRights.reduce((sum, right) => sum | permissionBits[right], 0)

/** What has no effect in a folder without a right there. */
const functions =
  permissionBits.webdavRead |
  permissionBits.webdavManage |
  permissionBits.sftpRead |
  permissionBits.sftpManage |
  permissionBits.readArchives |
  permissionBits.decompress

/** What opens something in every folder. */
const everywhere = permissionBits.seeHidden | permissionBits.skipPasswords | permissionBits.offlineDownload

/** Maps each role but that of administrators, and reports it. */
export async function rolesFrom(
  rows: readonly ForeignRow[],
  allGrants: ImportedGrants,
  report: Report,
): Promise<AlistRoles> {
  const roles = new Map<number, AlistRole>()
  for (const row of rows) {
    const id = Number(row.id)
    const name = textOf(row.name)
    if (id === adminRole) continue
    const mapped = await report.mapped('group', name, () => {
      const scopes = scopesOf(row)
      const taken = [...roles.values()].map(({ group }) => group)
      return { group: groupOf({ ...groupFields(scopes), ...namesOf(row), members: [] }, taken, allGrants), scopes }
    })
    if (mapped === undefined) continue
    roles.set(id, mapped)
    report.taken('group', name)
  }
  return roles
}

function namesOf(row: ForeignRow): Pick<ImportedGroup, 'name' | 'description'> {
  return { name: textOf(row.name), description: textOf(row.description).slice(0, 1000) }
}

/**
 * What the whole tree permits are permissions of the group, so that folder rules which let every user write apply. What
 * another folder permits is granted there.
 */
function groupFields(scopes: readonly Scope[]): Pick<ImportedGroup, 'permission' | 'grants'> {
  const whole = scopes.find(({ path }) => path === root)
  const grants = scopes.filter(({ path }) => path !== root).map(grantOf)
  return { permission: (whole?.permission ?? 0) & contentPermissions, grants }
}

/** Whoever has a role for a folder may read it. */
function grantOf({ path, permission }: Scope): ImportedGrant {
  const allow = changingRights.filter((right) => (permission & permissionBits[right]) !== 0)
  return { path, allow: ['see', 'read', ...allow], deny: [] }
}

/**
 * What the role permits, each path once. Later versions store a list of paths with permissions, and ignore the columns
 * of earlier ones, which had one number of permissions for all paths. Throws `invalid` if it cannot be read.
 */
function scopesOf(row: ForeignRow): readonly Scope[] {
  const stored = row.raw_permission === undefined ? row.permission_scopes : row.raw_permission
  const listed = stored === undefined ? undefined : listOf(textOf(stored))
  const scopes = listed?.map(scopeOf) ?? basePathsOf(row).map((path) => scopeOf({ path, permission: row.permission }))
  return [...byPathOf(scopes)].map(([path, permission]) => ({ path, permission }))
}

/** What several scopes with one path permit together. */
function byPathOf(scopes: readonly Scope[]): ReadonlyMap<Path, number> {
  const byPath = new Map<Path, number>()
  for (const { path, permission } of scopes) byPath.set(path, (byPath.get(path) ?? 0) | permission)
  return byPath
}

function listOf(text: string): readonly unknown[] {
  if (text === '' || text === 'null') return []
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('invalid', { reason: 'its permissions are not JSON text', cause })
  }
  if (Array.isArray(parsed) && parsed.length <= maxScopes) return parsed
  throw new GatewayError('invalid', { reason: `its permissions are not a list of at most ${maxScopes} folders` })
}

/** One path, or the JSON text of a list of paths. */
function basePathsOf(row: ForeignRow): readonly unknown[] {
  const text = textOf(row.base_paths === undefined ? row.base_path : row.base_paths)
  return text.startsWith('/') && !/[,\n]/.test(text) ? [text] : listOf(text)
}

function scopeOf(scope: unknown): Scope {
  const { path, permission } = (scope ?? {}) as { readonly path?: unknown; readonly permission?: unknown }
  // An empty path would be that of the whole tree.
  if (typeof path !== 'string' || !path.startsWith('/') || !Number.isInteger(permission)) {
    throw new GatewayError('invalid', { reason: 'a folder of the role has no whole path, or no number of permissions' })
  }
  return { path: cleanPath(path), permission: Number(permission) }
}

/** What a user has by its roles, besides the groups. */
interface RightsByRoles {
  readonly permission: number
  /** The roles are for some folders only. */
  readonly grantedOnly: boolean
  /** Why this cannot be expressed. */
  readonly faults: readonly string[]
  /** What is not as it was. */
  readonly changes: readonly string[]
}

/** `ids`: the roles of the user. */
export function rightsByRoles(ids: readonly number[], roles: AlistRoles): RightsByRoles {
  const own = [...new Set(ids)].map((id) => roles.get(id))
  const scopes = own.flatMap((role) => role?.scopes ?? [])
  if (own.includes(undefined) || scopes.length === 0) {
    const fault = own.includes(undefined) ? 'one of its roles is not taken' : 'it has no role that permits anything'
    return { permission: 0, grantedOnly: true, faults: [fault], changes: [] }
  }
  const byPath = byPathOf(scopes)
  const permissions = [...byPath.keys()].map((path) => permissionAt(path, byPath))
  const anywhere = permissions.reduce((sum, each) => sum | each, 0)
  const always = permissions.reduce((common, each) => common & each, everywhere)
  const isLost = (anywhere & everywhere) !== always
  const isWider = permissions.some((each) => ((each ^ anywhere) & functions) !== 0)
  return {
    permission: (anywhere & functions) | always,
    grantedOnly: !byPath.has(root),
    faults: [],
    changes: [
      ...(isLost
        ? ['it may not see hidden names, skip folder passwords or download from URLs where only some roles permit that']
        : []),
      ...(isWider
        ? ['WebDAV, SFTP and archives, which only some of its roles permit, are for all of its folders']
        : []),
    ],
  }
}

/** What is permitted at the path and above it together. */
function permissionAt(path: Path, byPath: ReadonlyMap<Path, number>): number {
  let sum = 0
  for (const above of selfAndAncestors(path)) sum |= byPath.get(above) ?? 0
  return sum
}
