/** The administration: one page for each subject. */
import type { ComponentType } from 'preact'
import { Link, Redirect, Route, Switch, useLocation } from 'wouter-preact'
import { texts } from '../texts.ts'
import { AboutPage } from './about-page.tsx'
import { DownloadsPage } from './downloads-page.tsx'
import { IndexPage } from './index-page.tsx'
import { LocksPage } from './locks-page.tsx'
import { LogPage } from './log-page.tsx'
import { RulesPage } from './rules-page.tsx'
import { SettingsPage } from './settings-page.tsx'
import { StartPage } from './start-page.tsx'
import { StoragesPage } from './storages-page.tsx'
import { UsersPage } from './users-page.tsx'
import '../styles/lists.css'

const pages: Readonly<Record<keyof typeof texts.admin.pages, ComponentType>> = {
  storages: StoragesPage,
  users: UsersPage,
  rules: RulesPage,
  settings: SettingsPage,
  locks: LocksPage,
  downloads: DownloadsPage,
  index: IndexPage,
  log: LogPage,
  about: AboutPage,
  start: StartPage,
}

export default function AdminPages() {
  const [location] = useLocation()
  return (
    <>
      <nav aria-label={texts.nav.administration} class="subjects">
        {Object.entries(texts.admin.pages).map(([name, text]) => (
          <Link
            key={name}
            href={`/@manage/${name}`}
            aria-current={location === `/@manage/${name}` ? 'page' : undefined}
          >
            {text}
          </Link>
        ))}
      </nav>
      <Switch>
        {Object.entries(pages).map(([name, Subject]) => (
          <Route key={name} path={`/@manage/${name}`}>
            <Subject />
          </Route>
        ))}
        <Route>
          <Redirect to="/@manage/storages" replace />
        </Route>
      </Switch>
    </>
  )
}
