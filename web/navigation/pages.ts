/** The pages that the side bar and the search dialog lead to, by the least rights that they need. */
import {
  BookOpen,
  Cable,
  CircleUserRound,
  ClipboardList,
  CloudDownload,
  FolderLock,
  Gauge,
  HardDrive,
  Info,
  KeyRound,
  ListTodo,
  LockKeyhole,
  Logs,
  Rocket,
  Settings,
  Share2,
  ShieldCheck,
  TextSearch,
  UserRound,
  UsersRound,
  Webhook,
  Wrench,
  type LucideIcon,
} from 'lucide-preact'
import { isAdmin, isGuest, type Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common')

export interface NamedPage {
  readonly name: string
  readonly address: string
  readonly Icon: LucideIcon
}

type Subject = keyof typeof texts.pages

/** The pages of the administration, in groups. */
const administration = {
  people: { users: UserRound, groups: UsersRound, rules: FolderLock, 'sign-ins': KeyRound, explain: ShieldCheck },
  storage: { storages: HardDrive, index: TextSearch, locks: LockKeyhole },
  events: { dashboard: Gauge, connections: Cable, audit: ClipboardList, log: Logs, webhooks: Webhook },
  system: { settings: Settings, downloads: Wrench, start: Rocket, about: Info },
} as const satisfies Readonly<Record<keyof typeof texts.subjects, Readonly<Partial<Record<Subject, LucideIcon>>>>>

export const tasksAddress = '/@tasks'

/** The pages of everybody who has an account. */
export function pagesOf(me: Me): readonly NamedPage[] {
  const { nav } = texts
  const manual = { name: texts.manual, address: '/@manual', Icon: BookOpen }
  if (isGuest(me)) return [manual]
  return [
    { name: nav.shares, address: '/@manage/shares', Icon: Share2 },
    { name: nav.tasks, address: tasksAddress, Icon: ListTodo },
    ...(may(me, 'offlineDownload') ? [{ name: nav.downloads, address: '/@downloads', Icon: CloudDownload }] : []),
    { name: nav.profile, address: '/@profile', Icon: CircleUserRound },
    manual,
  ]
}

export interface PageGroup {
  readonly name: string
  readonly pages: readonly NamedPage[]
}

/** The groups of the administration; none for users who are not admins. */
export function administrationOf(me: Me): readonly PageGroup[] {
  if (!isAdmin(me)) return []
  return Object.entries(administration).map(([group, pages]) => ({
    name: texts.subjects[group as keyof typeof administration],
    pages: Object.entries(pages).map(([subject, Icon]) => ({
      name: texts.pages[subject as Subject],
      address: `/@manage/${subject}`,
      Icon,
    })),
  }))
}
