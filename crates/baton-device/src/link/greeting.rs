use crate::journal::SharedJournal;
use crate::tool::Toolbox;
use async_trait::async_trait;
use baton_client::{Greeting, Hello};
use baton_proto::{Capabilities, ClientType, Workspace};
use std::fmt;
use std::sync::Arc;

/// Says which workspaces a device holds, and what they look like now.
#[async_trait]
pub trait WorkspaceSource: Send + Sync + fmt::Debug + 'static {
    async fn workspaces(&self) -> Vec<Workspace>;

    /// Resolves when there is news of a workspace.
    async fn has_news(&self) {
        std::future::pending::<()>().await;
    }

    /// What somebody else than a call changed since the hub was last told, oldest first.
    fn take_news(&self) -> Vec<WorkspaceNews> {
        Vec::new()
    }
}

/// A workspace that somebody else than a call changed.
#[derive(Clone, Debug)]
pub struct WorkspaceNews {
    pub workspace: Workspace,
    /// Files by which it differs from what was told before; the first of them.
    pub files: Vec<String>,
    pub files_left_out: u32,
}

#[async_trait]
impl WorkspaceSource for Vec<Workspace> {
    async fn workspaces(&self) -> Vec<Workspace> {
        self.clone()
    }
}

/// What a device says of itself at each connection.
#[derive(Debug)]
pub(crate) struct DeviceGreeting {
    pub(crate) capabilities: Capabilities,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) workspaces: Arc<dyn WorkspaceSource>,
    pub(crate) journal: SharedJournal,
}

#[async_trait]
impl Greeting for DeviceGreeting {
    async fn hello(&self) -> Hello {
        let workspaces = self.workspaces.workspaces().await;
        // Without its journal a device tells of nothing that runs, and is about to stop anyway.
        let told = self.journal.with(|journal| Ok((journal.running(), journal.identity()))).await;
        let (running, journal) = told.map_or_else(|_| (Vec::new(), None), |(running, identity)| (running, Some(identity)));
        Hello {
            client_type: ClientType::Device,
            capabilities: self.capabilities.clone(),
            tools: self.toolbox.specs(),
            workspaces,
            running,
            journal,
        }
    }
}
