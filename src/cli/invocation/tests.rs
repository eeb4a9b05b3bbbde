use super::*;

#[test]
fn name_of_the_link_selects_the_mode() {
    let invocation = |program: &str| Invocation::new(Some(OsStr::new(program)));
    assert_eq!(invocation("/usr/local/bin/policy-sync"), Invocation::Standalone);
    assert_eq!(invocation("kubectl-policy_sync"), Invocation::Plugin);
    assert_eq!(invocation("/opt/bin/kubectl_complete-policy_sync"), Invocation::PluginCompletion);
    for other in ["", "/", "kubectl", "policy-sync-0.1.0"] {
        assert_eq!(invocation(other), Invocation::Standalone, "{other}");
    }
    assert_eq!(Invocation::new(None), Invocation::Standalone);
}

/// The help of each command and of all its subcommands.
fn helps(mut command: Command) -> Vec<String> {
    command.build();
    fn below(command: &mut Command, helps: &mut Vec<String>) {
        helps.push(command.render_long_help().to_string());
        command.get_subcommands_mut().for_each(|command| below(command, helps));
    }
    let mut helps = Vec::new();
    below(&mut command, &mut helps);
    helps
}

#[test]
fn help_uses_the_name_that_the_user_typed() {
    let (own, plugin) = (helps(Invocation::Standalone.command()), helps(Invocation::Plugin.command()));
    assert!(own.len() > 5 && own.len() == plugin.len());
    for (own, plugin) in own.iter().zip(&plugin) {
        assert!(own.contains("Usage: policy-sync"), "{own}");
        assert!(plugin.contains("Usage: kubectl policy-sync"), "{plugin}");
        // Examples call the program by its typed name.
        let uses = |text: &str, name: &str| text.matches(&format!("  {name} ")).count();
        assert_eq!(uses(own, "policy-sync"), uses(plugin, "kubectl policy-sync"));
        assert_eq!(uses(plugin, "policy-sync"), 0, "{plugin}");
    }
}
