/** The administration: one page for each subject. */
import type { ComponentType } from 'preact'
import { Link, Redirect, Route, Switch, useLocation } from 'wouter-preact'
import { AuditPage } from '../audit/audit-page.tsx'
import { DashboardPage } from '../audit/dashboard-page.tsx'
import { SignInsPage } from '../audit/sign-ins-page.tsx'
import { textsOf } from '../texts/texts.ts'
import { WebhooksPage } from '../webhooks/webhooks-page.tsx'
import { AboutPage } from './about-page.tsx'
import { DownloadsPage } from './downloads-page.tsx'
import { ExplainPage } from './explain-page.tsx'
import { GroupsPage } from './groups-page.tsx'
import { IndexPage } from './index-page.tsx'
import { LocksPage } from './locks-page.tsx'
import { LogPage } from './log-page.tsx'
import { RulesPage } from './rules-page.tsx'
import { SettingsPage } from './settings-page.tsx'
import { StartPage } from './start-page.tsx'
import { StoragesPage } from './storages-page.tsx'
import { UsersPage } from './users-page.tsx'
import './admin-pages.css'

const texts = textsOf('common')

type Subject = keyof typeof texts.pages

const pages: Readonly<Record<Subject, ComponentType>> = {
  storages: StoragesPage,
  users: UsersPage,
  groups: GroupsPage,
  rules: RulesPage,
  settings: SettingsPage,
  dashboard: DashboardPage,
  audit: AuditPage,
  'sign-ins': SignInsPage,
  webhooks: WebhooksPage,
  downloads: DownloadsPage,
  locks: LocksPage,
  index: IndexPage,
  log: LogPage,
  start: StartPage,
  explain: ExplainPage,
  about: AboutPage,
}

/** The subjects in the bar of every page (`frame.tsx`). */
const barSubjects: readonly Subject[] = ['storages', 'users', 'groups', 'rules', 'settings']
const furtherSubjects = (Object.keys(pages) as Subject[]).filter((subject) => !barSubjects.includes(subject))

export default function AdminPages() {
  const [location] = useLocation()
  const isCurrent = (subject: Subject) => location === `/@manage/${subject}`
  return (
    <>
      {furtherSubjects.some(isCurrent) && (
        <nav aria-label={texts.nav.administration} class="subjects">
          {furtherSubjects.map((subject) => (
            <Link key={subject} href={`/@manage/${subject}`} aria-current={isCurrent(subject) ? 'page' : undefined}>
              {texts.pages[subject]}
            </Link>
          ))}
        </nav>
      )}
      <Switch>
        {Object.entries(pages).map(([name, Subject]) => (
          <Route key={name} path={`/@manage/${name}`}>
            <Subject />
          </Route>
        ))}
        <Route>
          <Redirect to="/@manage/dashboard" replace />
        </Route>
      </Switch>
    </>
  )
}
