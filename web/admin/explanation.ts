/** The explanation of a decision in words: what each step has found, and the notes. */
import type { Data } from '../api/client.ts'
import { textOfName } from '../components/error-text.ts'
import { list } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('accounts')

export type Answer = Data<'/api/admin/explain'> & { readonly protocol: keyof typeof texts.explain.protocols }
type Step = Answer['steps'][number]
export type Note = Answer['facts'][number]

/** The step that decides refuses if the answer does. */
export function decidingStep({ allowed, decided_by: step }: Answer): Step {
  return { ...step, refused: !allowed }
}

/** Undefined for a finding that a later version of the server has. */
export function findingText({ protocol, admin, error }: Answer, step: Step): string | undefined {
  const { findings, explain, grants } = texts
  const { refused, path } = step
  const right = grants.rightTexts[step.right]
  const byGrants = grantsText(step)
  const needed = permissionsText(step.permissions)
  const by = explain.protocols[protocol]
  const unmentioned = (finding: string) =>
    findings.because(admin ? findings.ofAdmin : findings.unmentioned(right), finding)
  const texted: Readonly<Record<Step['cause'], () => string>> = {
    credential: () => (refused ? textOfName(error ?? '') : findings.usable),
    protocol: () => {
      if (needed === '') return findings.protocolOfAll(by)
      return refused ? findings.protocolRefused(by, needed) : findings.protocolAllowed(by, needed)
    },
    base: () => (refused ? findings.outside(path) : findings.within(path)),
    no_grant: () => unmentioned(findings.seen),
    not_seen: () => (byGrants === '' ? unmentioned(findings.seesGranted) : findings.notSeen(byGrants)),
    way: () => {
      if (refused) return byGrants === '' ? findings.onlyWay : findings.onlyWayBy(byGrants)
      return byGrants === '' ? findings.way : findings.wayTo(byGrants)
    },
    grant: () => (refused ? findings.denied(right, byGrants) : findings.allowed(right, byGrants)),
    granted_only: () => unmentioned(findings.doesGranted),
    folder_of_grant: () => findings.folderOfGrant(right, byGrants),
    permission: () => {
      if (needed === '') return unmentioned(findings.notNeeded)
      if (refused) return unmentioned(findings.lacks(needed))
      const { groups } = step
      return unmentioned(groups.length > 0 ? findings.hasByGroups(needed, list(groups)) : findings.has(needed))
    },
    rule_with_write: () => unmentioned(findings.everybodyWrites(path)),
    hidden: () => (refused ? findings.hides(path) : findings.hidesNot),
    read_users: () => (refused ? findings.otherReaders(path) : findings.mayRead),
    password: () => (refused ? findings.needsPassword(path) : findings.needsNone),
    write_users: () => (refused ? findings.otherWriters(path) : findings.mayWrite),
  }
  return Object.hasOwn(texted, step.cause) ? texted[step.cause]() : undefined
}

/** Undefined for a note that a later version of the server has. */
export function noteText(note: Note): string | undefined {
  const { findings, grants } = texts
  const [path = '', other = ''] = note.paths
  const rights = list(note.rights.map((right) => grants.rightTexts[right]))
  const ofGrants = grantsText(note)
  const texted: Readonly<Record<Note['name'], () => string>> = {
    networks: () => findings.networks(list(note.networks)),
    folder_refused: () => findings.folderRefused(rights, path),
    folder_seen: () => findings.folderSeen,
    outside_base: () => findings.outsideBase(ofGrants, path),
    spellings: () => findings.spellings(list(note.paths)),
    elsewhere: () => findings.elsewhere(rights, ofGrants, path, other),
  }
  return Object.hasOwn(texted, note.name) ? texted[note.name]() : undefined
}

function grantsText({ grants }: Pick<Step, 'grants'>): string {
  const { findings } = texts
  return list(
    grants.map(({ path, user, group }) =>
      group === null ? findings.user(user ?? '', path) : findings.group(group, path),
    ),
  )
}

function permissionsText(permissions: number): string {
  const named = Object.entries(texts.users.permissionTexts)
  return list(named.filter(([bit]) => (permissions & Number(bit)) !== 0).map(([, text]) => text))
}
