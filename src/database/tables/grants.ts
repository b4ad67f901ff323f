/** The rights of users and groups at paths. */
import type { Path } from '../../base/path.js'
import type { Right } from '../../base/rights.js'
import type { PathRows } from './path-rows.js'

/** Rights of a user or of a group at a path and everything below it. A grant that allows anything allows `see`. */
export interface Grant {
  readonly id: number
  /** Either this or `groupId` is defined. */
  readonly userId: number | undefined
  readonly groupId: number | undefined
  readonly path: Path
  readonly allow: readonly Right[]
  readonly deny: readonly Right[]
}

/** The grants, which are deleted with their user or group. */
export interface GrantRows extends PathRows<Grant> {
  /**
   * Replaces the grants of a user or a group in one transaction. One whose path the subject has keeps its id.
   * `not_found` if the subject does not exist.
   */
  replace(
    subject: Pick<Grant, 'userId' | 'groupId'>,
    grants: readonly Pick<Grant, 'path' | 'allow' | 'deny'>[],
  ): Promise<void>
}
